"""Messages callers over chat upstreams."""

from __future__ import annotations

from typing import Final

from gateway.dialects.base import Translation
from gateway.dialects.messages_over_chat.reply import MessageWriter, translate_reply
from gateway.dialects.messages_over_chat.request import NAMES, translate_request

MESSAGES_OVER_CHAT: Final = Translation(
    translate_request, translate_reply, MessageWriter, NAMES, ".{}"
)
