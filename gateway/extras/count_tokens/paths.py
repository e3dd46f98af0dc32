"""The paths that count tokens: that of Messages, and those that other extras add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from gateway.base.errors import UpstreamError
from gateway.dialects.exchanges import Exchange
from gateway.dialects.messages.caller import MessagesCaller
from gateway.dialects.messages.upstream import MessagesUpstream
from gateway.dialects.wire.jsonbytes import dumps_lenient, hide_bill, maybe_loads
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.sse import BOM
from gateway.extension import find_added


@dataclass(frozen=True, slots=True)
class CountPath:
    """A path that counts the tokens of a request, free of charge."""

    path: str
    """The path after `/v1`, with the slash."""
    exchanges: Mapping[str, Exchange]
    """The exchanges with upstreams that count tokens themselves, by a provider's `dialect`."""
    frame: Json
    """The fields of a reply besides the count."""

    @property
    def exchange(self) -> Exchange:
        """The exchange with the upstream of the caller's own dialect."""
        return next(iter(self.exchanges.values()))


class CountCaller(MessagesCaller):
    """A `MessagesCaller` that asks for a count of tokens."""

    required = ("model", "messages")


class CountUpstream(MessagesUpstream):
    """Counts tokens and charges nothing."""

    path = "/messages/count_tokens"
    is_free = True


COUNT_MESSAGES: Final = CountPath(
    "/messages/count_tokens", {"messages": Exchange(CountCaller(), CountUpstream())}, {}
)


@cache
def find_counters() -> Sequence[CountPath]:
    """Return all paths. Entries of the same path become one, with the exchanges of both."""
    counters: dict[str, CountPath] = {}
    for one in (COUNT_MESSAGES, *find_added("count_tokens")):
        assert isinstance(one, CountPath)
        known = counters.get(one.path, one)
        counters[one.path] = replace(known, exchanges={**known.exchanges, **one.exchanges})
    return (*counters.values(),)


def edit_count(body: bytes, model: str) -> bytes:
    """Return a count of tokens unchanged, except for the model's name.

    Raises UpstreamError if the body is no count.
    """
    body = body.removeprefix(BOM)
    count = maybe_loads(body)
    match count:
        # The pattern `int()` also matches a bool.
        case {"input_tokens": int(tokens)} if tokens >= 0 and not isinstance(tokens, bool):
            shown = hide_bill(count, body)
            if "model" in shown:
                shown = {**shown, "model": model}
            return body if shown is count else dumps_lenient(shown)
        case _:
            raise UpstreamError("The upstream provider's reply is not a count of tokens.")
