"""Reading a Responses upstream: its JSON reply, and the events of its stream."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.dialects.records import Event, Json
from gateway.dialects.responses.usage import (
    count_tool_calls,
    find_tool,
    find_usage,
    read_items,
    read_responses_usage,
)
from gateway.dialects.wire.jsonbytes import get_object, maybe_loads
from gateway.dialects.wire.stream import read_object
from gateway.dialects.wire.upstream_errors import make_failure
from gateway.errors import UpstreamError
from gateway.usage import Expected, Reported, merge_reports

ENDS: Final = frozenset({"response.completed", "response.incomplete"})
WHOLE: Final = frozenset({"completed", "incomplete"})
"""The status of a response that says why it ended."""
_FAILURES: Final = frozenset({"error", "response.failed", "response.cancelled"})
_UNAVAILABLE: Final = frozenset(
    {"insufficient_quota", "rate_limit_exceeded", "server_is_overloaded", "slow_down"}
)
_PASSED: Final = frozenset({"context_length_exceeded", "cyber_policy", "invalid_prompt"})
"""Codes that find fault with the request, so that clients need not send it again."""
_SAYS_NOTHING: Final = (b"", b"[DONE]")
"""Events without content. `[DONE]` is chat's, which some imitations of the API add."""


def read_response(text: bytes) -> Json:
    """Parse a response. Raises UpstreamError if it is something else, or a response that failed."""
    response = maybe_loads(text)
    if type(response) is dict:
        if response.get("error") or response.get("status") in ("failed", "cancelled"):
            raise _make_error(response)
        if type(response.get("output")) is list:
            return response
    what = "JSON" if response is None else "a response"
    raise UpstreamError(f"The upstream's reply is not {what}.")


def _make_error(body: Json) -> UpstreamError:
    """Make the error of what failed: the message of any envelope, and a code that may pass."""
    error = make_failure(body if body.get("error") else {**body, "error": None}, _UNAVAILABLE)
    if error.provider_code in _PASSED:
        error.code = error.provider_code
    return error


class ResponsesReader:
    """A `Reader` of Responses events. It ends with `response.completed` or `response.incomplete`."""

    __slots__ = ("_calls", "_tier", "begun", "ended", "finished", "usage")

    counted: Final = True
    keeps_comments: Final = True

    def __init__(self) -> None:
        self.usage: Json | None = None
        self.begun = False
        self.ended = False
        self.finished = False
        self._calls: Counter[str] = Counter()
        self._tier: object = None

    def read(self, event: Event) -> list[Json]:
        body = self.read_event(event)
        return [] if body is None else [body]

    def read_event(self, event: Event) -> Json | None:
        """Parse an event, given its `type` where it has none; None for one that says nothing."""
        if event.data is None or event.data.strip() in _SAYS_NOTHING:
            return None
        body = read_object(event)
        kind = body.get("type")
        if type(kind) is not str:
            kind = "error" if body.get("error") else event.name
            body = {**body, "type": kind}
        response = body.get("response")
        if type(response) is dict:
            self._note_response(response)
        if kind in _FAILURES:
            raise _make_error(response if type(response) is dict else body)
        if kind.startswith("response."):
            self.begun = True
        if kind == "response.output_item.done":
            if (tool := find_tool(get_object(body, "item"))) is not None:
                self._calls[tool] += 1
        elif kind in ENDS:
            self.ended = self.finished = True
        return body

    def read_end(self, usage: Json | None) -> None:
        """Read the usage of an event too large to hold: with one it is the terminal event."""
        self.begun = True
        if usage is not None:
            self.usage = merge_reports(self.usage, usage)
            self.finished = True

    def close(self) -> list[Json]:
        return []

    def is_end(self, rest: bytes) -> bool:  # noqa: ARG002 - the terminal event has to be whole
        return False

    def read_report(self, expected: Expected) -> Reported:
        return read_responses_usage(self.usage, self._tier, self._calls, expected)

    def _note_response(self, response: Json) -> None:
        if (told := find_usage(response)) is not None:
            self.usage = merge_reports(self.usage, told)
        self._tier = response.get("service_tier") or self._tier
        self._calls |= count_tool_calls(read_items(response))
