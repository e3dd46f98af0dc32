"""Messages streams: reading a messages upstream's events (and JSON replies), and the stream that passes.

For a messages caller bytes pass, but for edits: the stream edits `message.model` in message_start, and
adds the `event:` line, which the SDKs need and some imitations of the API leave out. `message_stop` is
held back until the charge is committed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from gateway.dialects.base import EventReader
from gateway.dialects.messages.usage import (
    count_block_text,
    count_start_text,
    find_tool,
    is_made,
    read_messages_usage,
)
from gateway.dialects.records import Event, Json, ReplyContext
from gateway.dialects.wire.jsonbytes import get_object, maybe_replace
from gateway.dialects.wire.passing import PROBE, PassingStream
from gateway.dialects.wire.sse import read_object, render_event
from gateway.dialects.wire.upstream_errors import make_failure
from gateway.errors import UpstreamError
from gateway.usage import Expected, Reported, merge_reports

_UNAVAILABLE: Final = frozenset({"overloaded_error", "rate_limit_error"})
_OUTPUT: Final = "output_tokens"
_SAYS_NOTHING: Final = (b"", b"[DONE]")
"""Events without content. `[DONE]` is chat's, which some imitations of the messages API add."""


def check_error(body: Json, name: str = "") -> None:
    """Raise UpstreamError for an error, in any envelope, where a reply or an event should be."""
    if name == "error" or body.get("type") == "error" or body.get("error"):
        raise make_failure(body, _UNAVAILABLE)


class MessagesReader(EventReader):
    """A `EventReader` of messages events. It ends with `message_stop`."""

    __slots__ = ("_came", "_stop_reason", "begun", "counted")

    begun: bool
    keeps_comments = False
    """This dialect has ping events to show that the upstream is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = False
        self.counted = False
        """A `message_delta` counted the output: `message_start` only begins to."""
        self._came: Counter[str] = Counter()
        """Results of the provider's tools."""
        self._stop_reason: str | None = None

    @property
    def finished(self) -> bool:
        return self._stop_reason is not None

    def read_event(self, event: Event) -> Json | None:
        """Parse an event, given its `type` where it has none."""
        if event.data is None or event.data.strip() in _SAYS_NOTHING:
            return None
        body = read_object(event)
        check_error(body, event.name)
        # Some imitations name the event alone.
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
                # Only this event counts the output; the beginning reports a first token or two.
                self.counted |= self._note_usage(body.get("usage"))
                reason = get_object(body, "delta").get("stop_reason")
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
            case _:
                pass  # pings, and events that later versions of the API add
        return body

    def close(self) -> list[Json]:
        # A `message_stop` without a reason does not say that the message is whole.
        if self._stop_reason is None:
            raise UpstreamError("The upstream provider's reply is cut short.")
        return []

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


TEXT_KEYS: Final = ("text", "thinking", "partial_json")
"""Keys of a delta that hold text."""


STOP: Final = render_event({"type": "message_stop"})


class MessagesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ()

    _reader: MessagesReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, MessagesReader(), STOP)

    def _edit_event(self, block: bytes, body: Json) -> bytes:
        match body:
            case {"type": "message_start", "message": dict(message)}:
                block = self._edit_start(block, body, message)
            case {"type": "content_block_start", "content_block": dict(started)}:
                self._passed_bytes += count_start_text(started)
                self._carried |= is_made(started)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._passed_bytes += count_block_text(delta)
                self._learn_from(block, body, delta)
            case {"type": "ping"}:
                return block
            case _:
                pass
        self._begun = True
        return block

    def _edit_start(self, block: bytes, body: Json, message: Json) -> bytes:
        """Name the caller's model."""
        model, ours = message.get("model"), self._context.request.model
        if not isinstance(model, str):
            return block
        wanted = {**body, "message": {**message, "model": ours}}
        return maybe_replace(block, "model", model, ours, wanted) or render_event(wanted)

    def _learn_from(self, block: bytes, body: Json, delta: Json) -> None:
        texts = [key for key in TEXT_KEYS if isinstance(delta.get(key), str) and delta[key]]
        if len(texts) == 1:
            key = texts[0]
            self._learn_as_is(block, {**body, "delta": {**delta, key: PROBE}}, key, delta[key])
