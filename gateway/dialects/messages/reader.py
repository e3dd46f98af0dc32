"""Reading a messages upstream: its JSON reply, and the events of its stream."""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.dialects.messages.usage import find_tool, read_messages_usage
from gateway.dialects.records import Event, Json
from gateway.dialects.wire.jsonbytes import get_object, maybe_loads
from gateway.dialects.wire.stream import read_object
from gateway.dialects.wire.upstream_errors import make_failure
from gateway.errors import UpstreamError
from gateway.usage import Expected, Reported, merge_reports

_UNAVAILABLE: Final = frozenset({"overloaded_error", "rate_limit_error"})
_OUTPUT: Final = "output_tokens"
_SAYS_NOTHING: Final = (b"", b"[DONE]")
"""Events without content. `[DONE]` is chat's, which some imitations of the messages API add."""


def read_message(text: bytes) -> Json:
    """Parse a message. Raises UpstreamError if it is something else, or an error in a 200."""
    message = maybe_loads(text)
    if type(message) is dict:
        _check_error(message)
        if type(message.get("content")) is list:
            return message
    what = "JSON" if message is None else "a message"
    raise UpstreamError(f"The upstream's reply is not {what}.")


def _check_error(body: Json, name: str = "") -> None:
    """Raise UpstreamError for an error, in any envelope, where a reply or an event should be."""
    if name == "error" or body.get("type") == "error" or body.get("error"):
        raise make_failure(body, _UNAVAILABLE)


class MessagesReader:
    """A `Reader` of messages events. It ends with `message_stop`."""

    __slots__ = ("_came", "_stop_reason", "begun", "counted", "ended", "usage")

    keeps_comments: Final = False
    """This dialect has ping events to show that the upstream is alive."""

    def __init__(self) -> None:
        self.usage: Json | None = None
        self.begun = False
        self.counted = False
        """A `message_delta` counted the output: `message_start` only begins to."""
        self.ended = False
        self._came: Counter[str] = Counter()
        """Results of the provider's tools."""
        self._stop_reason: str | None = None

    @property
    def finished(self) -> bool:
        return self._stop_reason is not None

    def read(self, event: Event) -> list[Json]:
        body = self.read_event(event)
        return [] if body is None else [body]

    def read_event(self, event: Event) -> Json | None:
        """Parse an event, given its `type` where it has none; None for one that says nothing."""
        if event.data is None or event.data.strip() in _SAYS_NOTHING:
            return None
        body = read_object(event)
        _check_error(body, event.name)
        if not isinstance(body.get("type"), str):
            body = {**body, "type": event.name}
        match body["type"]:
            case "message_stop":
                self.ended = True
                return None
            case "message_start":
                self.begun = True
                self._note_usage(get_object(body, "message").get("usage"))
            case "content_block_start":
                self.begun = True
                if (tool := find_tool(body.get("content_block"))) is not None:
                    self._came[tool] += 1
            case "content_block_delta":
                self.begun = True
            case "message_delta":
                self.counted |= self._note_usage(body.get("usage"))
                reason = get_object(body, "delta").get("stop_reason")
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
            case _:
                pass  # pings, and events that later versions of the API add
        return body

    def close(self) -> list[Json]:
        if self._stop_reason is None:
            raise UpstreamError("The upstream provider's reply is cut short.")
        return []

    def is_end(self, rest: bytes) -> bool:  # noqa: ARG002 - `message_stop` has to be whole
        return False

    def read_report(self, expected: Expected) -> Reported:
        return read_messages_usage(self.usage, expected, self._came, counted=self.counted)

    def _note_usage(self, usage: object) -> bool:
        """Take over a report, and tell whether it counts the output.

        Counts are cumulative (Anthropic API reference, "Streaming Messages"): a later one
        overwrites, an absent one stays, and a zero replaces no count.
        """
        if not isinstance(usage, dict):
            return False
        self.usage = merge_reports(self.usage, usage)
        told = usage.get(_OUTPUT)
        return told is not None and told == self.usage.get(_OUTPUT)
