"""Which caller dialect can be served by which upstream dialect: one row a pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.base import Exchange
from gateway.dialects.chat import ChatOverChat
from gateway.dialects.chat_over_messages import ChatOverMessages
from gateway.dialects.messages import MessagesOverMessages
from gateway.dialects.messages_over_chat import MessagesOverChat

_CHAT_OVER_CHAT: Final = ChatOverChat()
_MESSAGES_OVER_CHAT: Final = MessagesOverChat()

EXCHANGES: Final[Mapping[str, Mapping[str, Exchange]]] = {
    "chat": {
        "chat": _CHAT_OVER_CHAT,
        "messages": ChatOverMessages(),
        "demo": _CHAT_OVER_CHAT,
    },
    "messages": {
        "chat": _MESSAGES_OVER_CHAT,
        "messages": MessagesOverMessages(),
        "demo": _MESSAGES_OVER_CHAT,
    },
}
"""By the caller's dialect, then by the provider's (the demo speaks chat)."""
