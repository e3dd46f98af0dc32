"""Chat callers over Responses upstreams."""

from __future__ import annotations

from typing import Final

from gateway.dialects.base import Translation
from gateway.dialects.chat_over_responses.reply import ChunkWriter, translate_reply
from gateway.dialects.chat_over_responses.request import translate_request

CHAT_OVER_RESPONSES: Final = Translation(translate_request, translate_reply, ChunkWriter)
