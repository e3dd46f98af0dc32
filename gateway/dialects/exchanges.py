"""Which caller dialect can be served by which upstream dialect: one row a pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.base import Exchange
from gateway.dialects.chat import ChatOverChat

_CHAT_OVER_CHAT: Final = ChatOverChat()

EXCHANGES: Final[Mapping[str, Mapping[str, Exchange]]] = {
    "chat": {"chat": _CHAT_OVER_CHAT, "demo": _CHAT_OVER_CHAT},
}
"""By the caller's dialect, then by the provider's (the demo speaks its caller's)."""
