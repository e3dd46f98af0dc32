"""Responses callers over chat upstreams."""

from __future__ import annotations

from typing import Final

from gateway.dialects.base import Translation
from gateway.dialects.responses_over_chat.reply import translate_reply
from gateway.dialects.responses_over_chat.request import NAMES, translate_request
from gateway.dialects.responses_over_chat.stream import ResponseWriter

RESPONSES_OVER_CHAT: Final = Translation(translate_request, translate_reply, ResponseWriter, NAMES)
