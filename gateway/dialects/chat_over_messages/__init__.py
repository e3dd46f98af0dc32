"""Chat callers over messages upstreams."""

from __future__ import annotations

from typing import Final

from gateway.dialects.base import Translation
from gateway.dialects.chat_over_messages.reply import ChunkWriter, translate_reply
from gateway.dialects.chat_over_messages.request import translate_request

CHAT_OVER_MESSAGES: Final = Translation(translate_request, translate_reply, ChunkWriter)
