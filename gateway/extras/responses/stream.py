"""Responses replies and streams read: usage, text to estimate tokens from, and the stream that passes.

For a Responses caller bytes pass, except for edits: the stream edits `response.model` in the events that
have a response, tags sealed content, and adds missing parts: the `event:` line, and the items of the
terminal event, whose `output` SDKs take for the reply although some upstreams leave it empty. The
terminal event waits until the charge is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.base.errors import GatewayError
from gateway.base.money import name_tool
from gateway.base.usage import Expected, Reported, count_text, merge_reports, read_count
from gateway.dialects.wire.failures import make_failure
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    get_text,
    hide_bill,
    maybe_replace,
)
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import EventReader
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.sse import Framer, render_event
from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES, PICTURE_BYTES
from gateway.dialects.wire.usage import make_cache_details, read_openai_usage
from gateway.extras.responses.history import tag_sealed
from gateway.extras.responses.mending import StreamMender
from gateway.extras.responses.templates import maybe_learn_numbered, read_number

_CALLERS_CALLS: Final = frozenset(
    {f"{name}_call" for name in ("apply_patch", "computer", "custom_tool", "function")}
    | {"local_shell_call", "shell_call", "tool_search_call"}
)
"""Types of items that ask the caller to run a tool, or that cost only tokens."""
_FILLED_LATER: Final = frozenset({"message", "reasoning"})
"""Types of items that have only text."""


def read_responses_usage(
    usage: object, tier: object, calls: Mapping[str, int], expected: Expected
) -> Reported:
    """Read a usage object, given the service tier of the response and its items' calls of tools.

    The counts of the usage take precedence: items may be calls that are free.
    """
    reported = read_openai_usage(usage, tier, expected)
    none = dict.fromkeys(expected.options.tool_calls, 0)  # the items show which tools ran
    reported.tool_calls = {**none, **calls, **(reported.tool_calls or {})}
    return reported


def find_usage(response: Json) -> Json | None:
    """Return the usage of a response, including `tool_usage`, which OpenAI puts beside it."""
    usage, beside = response.get("usage"), get_object(response, "tool_usage")
    if type(usage) is not dict:
        return None
    return (
        {**usage, "tool_usage": {**beside, **get_object(usage, "tool_usage")}} if beside else usage
    )


def read_items(response: Json) -> list[Json]:
    """Return the items of a response's output."""
    return [item for item in get_list(response, "output") if type(item) is dict]


def count_tool_calls(items: Iterable[Json]) -> Counter[str]:
    """Count the calls of tools that the provider ran, by the tool's name."""
    return Counter(name for item in items if (name := find_tool(item)) is not None)


def find_tool(item: Json) -> str | None:
    """Return the tool that an item is a call of, if the provider ran it and charges for it.

    A web search is charged; opening a page that it found is not. A reply has the output of a shell only if
    the provider ran it.
    """
    kind = get_text(item, "type")
    if kind == "shell_call_output":
        return "shell"
    if not kind.endswith("_call") or kind in _CALLERS_CALLS or item.get("status") == "failed":
        return None
    is_opening = get_object(item, "action").get("type") not in (None, "search")
    is_free = kind == "web_search_call" and is_opening
    return None if is_free else name_tool(kind.removesuffix("_call"))


def is_made(item: Json) -> bool:
    """Return whether an item has output besides text, such as a function's name."""
    return get_text(item, "type") not in _FILLED_LATER


def count_item_text(item: Json) -> int:
    """Count the UTF-8 bytes that an item brings: text, reasoning, arguments; pictures as text."""
    total = count_text(item.get("arguments"), item.get("input"), item.get("code"))
    if item.get("type") == "image_generation_call":
        total += PICTURE_BYTES
    for key in ("content", "summary"):
        for part in get_list(item, key):
            if type(part) is dict:
                total += count_text(part.get("text"), part.get("refusal"))
    return total


def make_usage(usage: ReplyUsage) -> Json:
    """Write a response's usage as it is charged."""
    tokens = usage.tokens
    details = get_object(usage.reported or {}, "completion_tokens_details")
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": make_cache_details(tokens),
        "output_tokens": tokens.output,
        "output_tokens_details": {
            "reasoning_tokens": read_count(details.get("reasoning_tokens")) or 0
        },
        "total_tokens": tokens.total,
    }


_REQUIRED: Final = {
    "input_tokens_details": "cached_tokens",
    "output_tokens_details": "reasoning_tokens",
}
"""The counts that clients require in the details of a usage."""


def maybe_complete_usage(response: Json) -> Json | None:
    """Return a response with all counts in its usage: without them Codex sends the turn again.

    None if it has them, or lacks the counts of input or output tokens.
    """
    usage = get_object(response, "usage")
    counts = [read_count(usage.get(name)) for name in ("input_tokens", "output_tokens")]
    if None in counts:
        return None
    whole = {
        **usage,
        "total_tokens": read_count(usage.get("total_tokens")) or sum(filter(None, counts)),
    }
    for side, name in _REQUIRED.items():
        held = get_object(usage, side)
        whole[side] = {**held, name: read_count(held.get(name)) or 0}
    return None if whole == usage else {**response, "usage": whole}


ENDS: Final = frozenset({"response.completed", "response.incomplete"})
WHOLE: Final = frozenset({"completed", "incomplete"})
"""The status of a response that says why it ended."""
FAILURES: Final = frozenset({"error", "response.failed", "response.cancelled"})


def make_error(body: Json) -> GatewayError:
    """Make the error of a failed response, or of an event in any envelope."""
    return make_failure(body if body.get("error") else {**body, "error": None})


class ResponsesReader(EventReader):
    """An `EventReader` of Responses events. It ends with `response.completed` or `response.incomplete`."""

    __slots__ = ("_calls", "_tier", "finished")

    finished: bool

    def __init__(self) -> None:
        super().__init__()
        self.finished = False
        self._calls: Counter[str] = Counter()
        self._tier: object = None

    def _read_object(self, body: Json, name: str) -> Json:
        """Read an object, given its `type` where it has none."""
        kind = body.get("type")
        if type(kind) is not str:
            # Some imitations send only the event's name, and errors in chat's envelope.
            kind = "error" if body.get("error") else name
            body = {**body, "type": kind}
        response = body.get("response")
        if type(response) is dict:
            self._note_response(response)
        if kind in FAILURES:
            raise make_error(response if type(response) is dict else body)
        if kind.startswith("response."):
            self.begun = True
        if kind == "response.output_item.done":
            if (tool := find_tool(get_object(body, "item"))) is not None:
                self._calls[tool] += 1
        elif kind in ENDS:
            self.ended = self.finished = True
        return body

    def read_end(self, end: bytes, usage: Json | None) -> None:  # noqa: ARG002 - chat looks for a finish reason
        """Read the usage of an event too large to keep: only the terminal event has one."""
        self.begun = True
        if usage is not None:
            self.usage = merge_reports(self.usage, usage)
            self.finished = True

    def read_report(self, expected: Expected) -> Reported:
        return read_responses_usage(self.usage, self._tier, self._calls, expected)

    def _note_response(self, response: Json) -> None:
        if (told := find_usage(response)) is not None:
            self.usage = merge_reports(self.usage, told)
        self._tier = response.get("service_tier") or self._tier
        # The larger count of each tool: items came one by one before, or come only here.
        self._calls |= count_tool_calls(read_items(response))


_DELTA: Final = ".delta"
_KEEP_ALIVE: Final = "keepalive"


class ResponsesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ("_buffered_bytes", "_done", "_done_bytes", "_mender", "_number", "_response")

    _reader: ResponsesReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, ResponsesReader())
        self._framer = Framer(MAX_TRANSLATED_EVENT_BYTES)  # responses repeat instructions and tools
        self._done: dict[int, Json] = {}
        """The items that are done, by index, as long as they fit into one event together."""
        self._buffered_bytes = 0
        """The length of their events."""
        self._done_bytes = 0
        """UTF-8 bytes of the items that are done: some imitations send no deltas."""
        self._mender = StreamMender(context.request_id)
        self._number = -1
        """The `sequence_number` of the last event that passed without a template."""
        self._response: Json | None = None

    @property
    def position(self) -> Json | None:
        if self._response is None:
            return None
        response = self._response
        if (usage := self._reader.usage) is not None:
            response = hide_bill({**response, "usage": usage}, dumps_lenient(usage))
        return {"response": response, "sequence_number": self._next_number}

    @property
    def _next_number(self) -> int:
        return max(self._number, *map(read_number, self._templates), -1) + 1

    def _edit_event(self, block: bytes, body: Json) -> bytes:
        kind = body["type"]
        if kind == _KEEP_ALIVE:
            return block
        self._begun = True
        items = read_items(get_object(body, "response")) if self._reader.ended else []
        events = self._mender.mend(body, items)
        if not self._mender.is_mending:
            return self._pass_one(block, body)
        if self._may_learn or self._templates:
            self._number, self._may_learn = self._next_number - 1, 0
            self._templates.clear()  # they have the provider's numbers
        out = []
        for number, one in enumerate(events, self._number + 1):
            told = {**one, "sequence_number": number}
            out.append(self._pass_one(render_event(told), told))
        return b"".join(out)

    def _pass_one(self, block: bytes, body: Json) -> bytes:
        kind = body["type"]
        if kind.endswith(_DELTA):
            self._note_delta(block, body)
        elif type(response := body.get("response")) is dict:
            block = self._edit_response(block, body, response)
        elif type(item := body.get("item")) is dict:
            self._note_item(block, body, item)
        block = tag_sealed(block, self._context.provider_tag)
        # The terminal event waits for the charge.
        if kind in ENDS:
            self._last = block
            return b""
        number = body.get("sequence_number")
        if type(number) is int:
            self._number = number
        return block

    def _note_delta(self, block: bytes, body: Json) -> None:
        text = body.get("delta")
        self._passed_bytes += count_text(text)
        if self._may_learn and type(text) is str:
            self._may_learn -= 1
            self._keep(maybe_learn_numbered(block, body))

    def _note_item(self, block: bytes, body: Json, item: Json) -> None:
        self._carried |= is_made(item)
        if body["type"] != "response.output_item.done":
            return
        self._done_bytes += count_item_text(item)
        # The larger, not the sum: an item that is done repeats its deltas.
        self._passed_bytes = max(self._passed_bytes, self._done_bytes)
        self._buffered_bytes += len(block)
        # Some of the items would look like all of them, so none is kept.
        if self._buffered_bytes > MAX_TRANSLATED_EVENT_BYTES:
            self._done.clear()
        elif type(index := body.get("output_index")) is int:
            self._done[index] = item

    def _edit_response(self, block: bytes, body: Json, response: Json) -> bytes:
        completed = maybe_complete_usage(response) if body["type"] in ENDS else None
        response = completed or response
        model, ours = response.get("model"), self._context.request.model
        told = self._context.request.told
        self._response = edited = {**response, "model": ours, **told}
        wanted = {**body, "response": edited}
        if body["type"] in ENDS and self._done and not response.get("output"):
            edited["output"] = [self._done[index] for index in sorted(self._done)]
            return render_event(wanted)
        if told or completed or type(model) is not str:
            return render_event(wanted)
        return maybe_replace(block, "model", model, ours, wanted) or render_event(wanted)
