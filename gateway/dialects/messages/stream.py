"""Messages replies and streams read: their usage, text to estimate tokens from, and the stream that passes.

For a messages caller bytes pass, except for edits: the stream edits `message.model` in message_start,
and adds the `event:` line, which the SDKs need and some imitations of the API leave out. `message_stop`
is held back until the charge is committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, Literal

from gateway.base.errors import UpstreamError
from gateway.base.money import NONE, Tokens, name_tool
from gateway.base.prices import CONDITIONS, BillTerms, name_tier
from gateway.base.usage import Expected, Reported, are_counts, count_text, merge_reports
from gateway.dialects.wire import failures
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object, get_text, maybe_replace
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import EventReader, Probed
from gateway.dialects.wire.provider_bill import TELLS_MORE, read_bill_nano, read_tool_calls
from gateway.dialects.wire.records import Json, ReplyContext
from gateway.dialects.wire.sse import render_event
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.dialects.wire.templates import PROBE

_RESULT: Final = "_tool_result"
_PARTS: Final = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
}
"""The names by which callers declare these tools."""


def find_tool(block: object) -> str | None:
    """Return the provider's tool whose result a block is; errors are not charged."""
    kind = block.get("type") if type(block) is dict else None
    if type(block) is not dict or type(kind) is not str or not kind.endswith(_RESULT):
        return None
    name = kind.removesuffix(_RESULT)
    failed = get_text(get_object(block, "content"), "type").endswith("_error")
    return None if failed or name == "mcp" else _PARTS.get(name, name_tool(name))


def count_block_text(block: Json) -> int:
    """Count the UTF-8 bytes that a block or a delta brings: text, thinking and a tool's input."""
    if block.get("type") == "image":
        return PICTURE_BYTES
    total = count_text(block.get("text"), block.get("thinking"), block.get("partial_json"))
    return total + len(dumps_lenient(block["input"])) if "input" in block else total


def is_made(block: Json) -> bool:
    """Return whether the beginning of a block is output by itself, such as a tool's name."""
    return get_text(block, "type") not in _FILLED_LATER


_FILLED_LATER: Final = frozenset({"text", "thinking"})


check_error: Final = partial(failures.check_error, type_key="type")


class MessagesReader(EventReader):
    """An `EventReader` of messages events. It ends with `message_stop`."""

    __slots__ = ("_came", "_stop_reason", "counted")

    keeps_comments = False
    """This dialect has ping events to show that the upstream is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = False
        """A `message_delta` counted the output; `message_start` counts only its beginning."""
        self._came: Counter[str] = Counter()
        """Results of the provider's tools so far, by name."""
        self._stop_reason: str | None = None

    @property
    def finished(self) -> bool:
        return self._stop_reason is not None

    def _read_object(self, body: Json, name: str) -> Json | None:
        """Read an object, given its `type` where it has none."""
        check_error(body, name)
        # Some imitations send only the name of the event, and no `type`.
        if not isinstance(body.get("type"), str):
            body = {**body, "type": name}
        match body["type"]:
            case "message_stop":
                self.ended = True
                # Imitations of the API tell the usage only here, or repeat the first one.
                self.counted = self.counted or self._note_usage(body.get("usage"))
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
                # Only this event counts the output; `message_start` reports a first token or two.
                self.counted |= self._note_usage(body.get("usage"))
                reason = get_object(body, "delta").get("stop_reason")
                self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
            case _:
                pass  # pings, and events of later API versions
        return body

    def maybe_probe(self, event: Json) -> Probed | None:
        """See `EventReader`: a delta with one text, under the key that its type names."""
        delta = get_object(event, "delta")
        key = _TEXT_KEYS.get(get_text(delta, "type"), "")
        if event.get("type") != "content_block_delta" or not get_text(delta, key):
            return None
        if delta.keys() & _TEXTS != {key}:
            return None
        return {**event, "delta": {**delta, key: PROBE}}, key, delta[key]

    def close(self) -> list[Json]:
        # A `message_stop` without a reason does not say that the message is whole.
        if self._stop_reason is None:
            raise UpstreamError("The upstream provider's reply is cut short.")
        return []

    def read_report(self, expected: Expected) -> Reported:
        return read_messages_usage(self.usage, expected, self._came, counted=self.counted)

    def _note_usage(self, usage: object) -> bool:
        """Take over a report; return whether it counts the output.

        Counts are cumulative (Anthropic API reference, "Streaming Messages"): a later one
        replaces an earlier one, and an absent one changes nothing. A zero replaces no count, except that of
        an input which was cached as a whole.
        """
        if not isinstance(usage, dict):
            return False
        before, self.usage = self.usage or {}, merge_reports(self.usage, usage)
        # Kimi and Qwen first report the whole input, and only at the end which part was cached.
        if usage.get("input_tokens") == 0 and tells_cache(usage) and not tells_cache(before):
            self.usage["input_tokens"] = 0
        told = usage.get("output_tokens")
        return told is not None and told == self.usage.get("output_tokens")


BlockKind = Literal["text", "thinking", "tool_use"]
DELTAS: Final[dict[BlockKind, tuple[str, str]]] = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}
"""The type of a delta, and the key of its text, by the type of its block."""
_TEXT_KEYS: Final = dict(DELTAS.values())
_TEXTS: Final = frozenset(_TEXT_KEYS.values())
STOP: Final = render_event({"type": "message_stop"})


class MessagesStream(PassingStream):
    """A `Pipeline`: the upstream's events in, the same out."""

    __slots__ = ()

    _reader: MessagesReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, MessagesReader(), STOP)

    def _edit_event(self, block: bytes, body: Json) -> bytes:
        match body:
            case {"type": "message_start", "message": dict(message)}:  # it names the model
                ours = self._context.request.model
                model = message.get("model", ours)
                wanted = {**body, "message": {**message, "model": ours}}
                named = type(model) is str and maybe_replace(block, "model", model, ours, wanted)
                block = named or render_event(wanted)
            case {"type": "content_block_start", "content_block": dict(started)}:
                if started.get("input") != {}:  # which its deltas fill
                    self._passed_bytes += count_block_text(started)
                self._carried |= is_made(started)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                self._passed_bytes += count_block_text(delta)
                if self._may_learn and (probe := self._reader.maybe_probe(body)):
                    self._learn_text(block, probe)
            case {"type": "ping"}:
                return block
            case _:
                pass
        self._begun = True
        return block


_NO_REGION: Final = "not_available"
"""The `inference_geo` of models that are served in one place."""


def read_messages_usage(
    usage: object, expected: Expected, came: Mapping[str, int] = NONE, *, counted: bool = True
) -> Reported:
    """Read a usage object. Null is absence, field by field.

    Args:
        usage: the object; None where there is none.
        expected: tells how long the input was to be cached, if the usage does not.
        came: results of the provider's tools, by name, in case the usage does not count their calls.
        counted: the usage covers the whole reply, not only its beginning.
    """
    none: Json = dict.fromkeys(expected.options.tool_calls, 0)  # the blocks tell of what was run
    if not isinstance(usage, dict):
        return Reported(tool_calls={**none, **came}, guessed=bool(came))
    more = not TELLS_MORE.isdisjoint(usage)
    told = (read_tool_calls(usage) or {}) if more else {}
    used = get_object(usage, "server_tool_use")
    missed: Json = {}
    for name, count in came.items():
        if count > told.get(name, 0) and not (counted and f"{name}_requests" in used):
            missed[name] = count
    hour, parts = expected.options.cache == "1h", usage.get("iterations")
    read = _read_iterations if type(parts) is list and dict in map(type, parts) else _read_tokens
    report = read(usage, hour=hour)
    report.tool_calls = {**none, **told, **missed}
    if not _TERMS.isdisjoint(usage):
        report.terms = BillTerms(
            service_tier=name_tier(usage.get("service_tier")),
            speed=get_text(usage, "speed"),
            inference_geo=get_text(usage, "inference_geo").replace(_NO_REGION, ""),
        )
    report.guessed = report.guessed or bool(missed)
    report.cost_nano = read_bill_nano(usage) if more else None
    return report


def tells_cache(usage: Json) -> bool:
    """Return whether a usage counts tokens that were read from a cache or written to one."""
    return any(map(usage.get, ("cache_read_input_tokens", "cache_creation_input_tokens")))


def _read_iterations(usage: Json, *, hour: bool) -> Reported:
    """Read a usage whose `iterations` complete it."""
    counted = (
        {**_NOTHING, **{key: value for key, value in one.items() if value is not None}}
        for one in (usage, *usage["iterations"])
        if type(one) is dict
    )
    reports = [_read_tokens(one, hour=hour) for one in counted]
    # With compaction the plain counts leave some iterations out, so the larger count is right.
    top, *parts = (one.tokens for one in reports)
    total = Tokens(**{name: sum(getattr(one, name) for one in parts) for name in _COUNTS})
    tokens = Tokens(**{name: max(getattr(top, name), getattr(total, name)) for name in _COUNTS})
    writes = max(top, total, key=lambda one: one.cache_write + one.cache_write_1h)
    tokens.cache_write, tokens.cache_write_1h = writes.cache_write, writes.cache_write_1h
    has_input = all(one.has_input for one in reports)
    has_output = all(one.has_output for one in reports)
    return Reported(tokens, has_input, has_output, guessed=any(one.guessed for one in reports))


_TERMS: Final = frozenset(CONDITIONS)
_COUNTS: Final = ("input", "cached_input", "cache_write", "output", "cache_write_1h")
_NOTHING: Final[Json] = {"input_tokens": 0, "output_tokens": 0}
"""The counts of an iteration without any."""


def _read_tokens(usage: Json, *, hour: bool) -> Reported:
    """Read one object of counts. Cache writes without a stated lifetime have the requested one (`hour`)."""
    fresh: Any = usage.get("input_tokens")
    output: Any = usage.get("output_tokens")
    cached: Any = usage.get("cache_read_input_tokens") or 0
    written: Any = usage.get("cache_creation_input_tokens") or 0
    creation = get_object(usage, "cache_creation")
    short: Any = creation.get("ephemeral_5m_input_tokens") or 0
    long: Any = creation.get("ephemeral_1h_input_tokens") or 0
    has_input, has_output = are_counts(fresh, cached, written, short, long), are_counts(output)
    tokens = Tokens(output=output if has_output else 0)
    if not has_input:
        return Reported(tokens, has_output=has_output)
    total: Any = usage.get("prompt_tokens")
    if are_counts(total) and cached + written <= total < fresh + cached + written:
        fresh = total - cached - written  # Kimi's input may include the cached tokens
    # A stream may tell other parts at its end than at its beginning, so their sum is limited to `written`.
    written = written or short + long
    if short + long > written:
        long = min(long, written) if hour else max(written - short, 0)
    rest = max(written - short - long, 0) if hour else 0
    tokens.input, tokens.cached_input = fresh, cached
    tokens.cache_write, tokens.cache_write_1h = written - long - rest, long + rest
    return Reported(tokens, True, has_output, guessed=rest > 0)
