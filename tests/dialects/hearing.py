"""Streams that are played for their metering."""

from __future__ import annotations

from typing import Any

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.records import ReplyContext
from gateway.prices import Asked
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import INPUT_ESTIMATE, Played, make_context, play
from tests.dialects.chat_over_messages.kit import frame
from tests.dialects.messages_over_chat.kit import make_context as make_messages_context

Json = dict[str, Any]

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def hear(*parts: bytes, caller: str = "chat", context: ReplyContext | None = None) -> Played:
    return play(EXCHANGES[caller]["chat"].open_stream(context or make_context(usage=True)), parts)


def hear_message(*told: Json, context: ReplyContext | None = None) -> Played:
    context = context or make_messages_context()
    return play(EXCHANGES["messages"]["messages"].open_stream(context), [frame(*told)])


def bound(most: int, asked: Asked | None = None) -> ReplyContext:
    limits = UsageLimits(10**6, 10**6, most)
    expected = Expected(INPUT_ESTIMATE, limits, asked or Asked())
    plain = make_context(usage=True)
    return ReplyContext(plain.request, plain.request_id, expected)
