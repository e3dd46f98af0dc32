"""The content of a chat reply: text, reasoning, pictures, recordings, and tool calls, which are repaired.

A fragment belongs to a call by these signs, a stronger one before a weaker one: an index that no call
had with a name, an id, an index, its place behind other fragments. One that names another function begins
a call. Callers get indexes counted from 0, as SDKs use them as places in a list. README.md lists the
vendors that break the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_not
from typing import Final, Literal

from gateway.base.usage import count_text
from gateway.dialects.chat.tools import ARGUMENTS
from gateway.dialects.wire.call_ids import ReplyIds
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    get_text,
    maybe_loads,
)
from gateway.dialects.wire.records import Json, ReplyContext
from gateway.dialects.wire.stream import PICTURE_BYTES

_MEDIA: Final = frozenset({"image", "image_url", "audio", "input_audio"})


def count_choices_text(choices: list[object], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes of output in the choices of a reply or a chunk."""
    total = 0
    for choice in choices:
        message = choice.get(key) if type(choice) is dict else None
        if type(message) is dict:
            total += count_message_text(message)
    return total


def count_message_text(message: Json) -> int:
    """Count the UTF-8 bytes of output in a message or a delta: text, reasoning and arguments."""
    content = message.get("content")
    thinking, text = read_content(content) if type(content) is list else ("", content)
    reasoning = read_reasoning(message) or thinking
    total = count_text(text, reasoning, message.get("refusal"))
    if "tool_calls" in message or "function_call" in message:
        calls = [call for call in get_list(message, "tool_calls") if isinstance(call, dict)]
        total += sum(map(_count_call, [*calls, {"function": message.get("function_call")}]))
    if type(content) is list or "audio" in message or "images" in message:
        # Pictures count as a fixed number of text bytes, recordings by their transcripts.
        audio = get_object(message, "audio")
        total += (len(list_media(message)) - bool(audio)) * PICTURE_BYTES
        total += count_text(audio.get("transcript"))
    return total


def carries(choice: object, key: Literal["message", "delta"]) -> bool:
    """Return whether a choice contains any output of the model."""
    delta = choice.get(key) if isinstance(choice, dict) else None
    if not isinstance(delta, dict):
        return False
    made = (value for key, value in delta.items() if key != "role")
    return any(value for value in made if isinstance(value, str | list | dict))


def read_content(content: object) -> tuple[str, str]:
    """Read the reasoning and the text of a content. At Mistral and Databricks it may be an array of both."""
    if isinstance(content, str):
        return "", content
    thinking = text = ""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text" | "summary_text", "text": str(said)}:
                text += said
            case {"type": "thinking", "thinking": thought} | {
                "type": "reasoning",
                "summary": thought,
            }:
                thinking += read_content(thought)[1]
            case _:
                pass  # pictures and references are no text
    return thinking, text


def read_reasoning(message: Json) -> str:
    """Read the reasoning of a message or delta under either of its names, never twice."""
    return get_text(message, "reasoning_content") or get_text(message, "reasoning")


def _count_call(call: Json) -> int:
    """Count the arguments of a function, or the input of a custom tool."""
    total = 0
    for kind in ARGUMENTS:
        held = get_object(call, kind)
        total += count_text(read_arguments(held.get("arguments")), held.get("input"))
    return total


def list_media(message: Json) -> list[object]:
    """List the pictures and recordings that the model made, unchanged."""
    parts, audio = get_list(message, "content"), get_object(message, "audio")
    inline = [part for part in parts if isinstance(part, dict) and get_text(part, "type") in _MEDIA]
    return [*get_list(message, "images"), *inline, *([audio] if audio else [])]


def read_arguments(given: object) -> str:
    """Read arguments, which some upstreams send as an object."""
    if isinstance(given, str):
        return given
    return dumps_lenient(given).decode("utf-8", "replace") if given else ""


@dataclass(slots=True)
class _Call:
    identity: str
    """The first id that the upstream gave the call."""
    name: str
    is_whole: bool
    """The first fragment has no id and has all arguments."""


class CallRepair:
    """Repairs the calls of one message. A list that conforms is returned as the same object."""

    __slots__ = ("_by_id", "_calls", "_ids", "_latest", "_places", "moves")

    def __init__(self, context: ReplyContext) -> None:
        self._ids = ReplyIds(context)
        self._calls: dict[int, _Call] = {}
        """The calls so far, by the index that the caller gets."""
        self._by_id: dict[str, int] = {}
        self._latest = -1
        self._places: dict[int, int] = {}
        """Providers may reuse an index: maps each upstream index to its latest call."""
        self.moves = 0
        """Calls that took another call's index."""

    def __bool__(self) -> bool:
        """Return whether a call has begun."""
        return bool(self._calls)

    def repair_deltas(self, calls: list[object]) -> list[object]:
        """Repair the fragments of one delta."""
        taken: set[int] = set()
        fixed: list[object] = [self._repair_delta(one, taken) for one in calls if type(one) is dict]
        return fixed if differ(fixed, calls) else calls

    def repair_calls(self, calls: list[object]) -> list[object]:
        """Repair the calls of a message, which are whole."""
        fixed = [
            self._begin(number, _fill_arguments(one)) if type(one) is dict else one
            for number, one in enumerate(one for one in calls if one is not None)
        ]
        return fixed if differ(fixed, calls) else calls

    def continue_call(self, index: int) -> None:
        """Note that more arguments of a call passed without a look at them."""
        self._latest = index

    def _repair_delta(self, call: Json, taken: set[int]) -> Json:
        """Repair a fragment; `taken`: the calls that other fragments of its delta belong to."""
        told = call.get("index")
        index = self._find(told, call, taken)
        taken.add(index)
        self._latest = index
        repaired = self._continue(index, call) if index in self._calls else self._begin(index, call)
        if index == told and type(told) is int:
            return repaired
        return {"index": index, **{key: repaired[key] for key in repaired if key != "index"}}

    def _find(self, told: object, call: Json, taken: set[int]) -> int:
        """Find the call that a fragment belongs to; return a free index for a call that begins."""
        identity, name, free = get_text(call, "id"), _read_name(call), len(self._calls)
        known = self._by_id.get(identity) if identity else None
        if type(told) is not int:
            # Without an index, only an id or a name shows that another call begins.
            if known is not None and not (name and known in taken):
                return known
            return free if identity or name or self._latest < 0 else self._latest
        at = self._places.get(told)
        if (
            at is None
            and not name
            and (known is not None or (not identity and told in self._calls))
        ):
            return told if known is None else known
        if at is not None and not (name and at in taken):
            begun = self._calls[at]
            another = bool(identity) and begun.identity != identity
            if another and (known is not None or not (name and begun.identity)):
                return at if known is None else known
            if not another and not _is_other(begun, call, name):
                return at
        # Some providers give all calls one index. Or fragments came under an index that began no call.
        self.moves += at is not None or told in self._calls
        self._places[told] = free
        return free

    def _begin(self, index: int, call: Json) -> Json:
        identity, name = get_text(call, "id"), _read_name(call)
        is_whole = not identity and _is_whole(call)
        self._calls[index] = _Call(identity, name, is_whole)
        if identity:
            self._by_id.setdefault(identity, index)
        given = self._ids.give(identity, name)
        repaired = _repair_text(call, complete=True)
        if given != call.get("id"):
            repaired = {**repaired, "id": given}
        if type(call.get("type")) is not str or not call["type"]:
            repaired = {**repaired, "type": "function"}
        return repaired

    def _continue(self, index: int, call: Json) -> Json:
        """Leave out id and name, which only the first fragment may have: clients append repeated ones."""
        begun, name = self._calls[index], _read_name(call)
        if identity := get_text(call, "id"):
            self._by_id.setdefault(identity, index)
            begun.identity = begun.identity or identity
        repaired = _repair_text(call)
        if repaired.get("id", "") != "":
            repaired = {key: held for key, held in repaired.items() if key != "id"}
        if begun.name or not name:
            for key in ARGUMENTS:
                if isinstance(tool := repaired.get(key), dict) and tool.get("name", "") != "":
                    kept = {member: held for member, held in tool.items() if member != "name"}
                    repaired = {**repaired, key: kept}
        begun.name = begun.name or name
        return repaired


def _read_name(call: Json) -> str:
    tools = (call.get(key) for key in ARGUMENTS)
    return next(
        (name for one in tools if isinstance(one, dict) if (name := get_text(one, "name"))), ""
    )


def _is_other(begun: _Call, call: Json, name: str) -> bool:
    """Return whether a fragment without an id of its own belongs to another call than its index says."""
    if not name or not begun.name:
        return False
    return name != begun.name or (begun.is_whole and _is_whole(call))


def _is_whole(call: Json) -> bool:
    """Return whether a fragment has all arguments of a call."""
    text = get_text(get_object(call, "function"), "arguments").strip()
    return text.startswith("{") and maybe_loads(text.encode("utf-8", "surrogatepass")) is not None


def fill_calls(message: Json) -> Json:
    """Return the message of a whole reply with the arguments of its calls filled in."""
    filled, old = {**message}, message.get("function_call")
    if calls := get_list(message, "tool_calls"):
        filled["tool_calls"] = [_fill_arguments(one) if type(one) is dict else one for one in calls]
    if type(old) is dict:
        filled["function_call"] = _fill_arguments({"function": old})["function"]
    return filled


def _fill_arguments(call: Json) -> Json:
    """Write an empty object of arguments as "{}": clients parse the arguments of a whole call."""
    match call:
        case {"function": {"arguments": dict(given)} as function} if not given:
            return {**call, "function": {**function, "arguments": "{}"}}
        case _:
            return call


def _repair_text(call: Json, *, complete: bool = False) -> Json:
    """Write arguments as a string. If `complete`, add an empty string where they are missing."""
    for key, member in ARGUMENTS.items():
        if key not in call:
            continue
        tool = call[key] if isinstance(call[key], dict) else {}
        if tool is not call[key] or type(tool.get(member, None if complete else "")) is not str:
            call = {**call, key: {**tool, member: read_arguments(tool.get(member))}}
    return call


def differ(fixed: list[object], calls: list[object]) -> bool:
    return len(fixed) != len(calls) or any(map(is_not, fixed, calls))
