"""Custom tools that a caller declares flat: chat providers, few of which know custom tools, get functions.

The provider's calls of these functions reach the caller as calls of custom tools.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_

from gateway.base.money import Tokens
from gateway.dialects.chat.dialect import ChatUpstream
from gateway.dialects.chat.repair import without
from gateway.dialects.chat.stream import ChatStream
from gateway.dialects.chat.tools import is_flat
from gateway.dialects.wire.bounds import limit_elements, refuse_reply
from gateway.dialects.wire.customs import INPUT_KEY, InputDecoder, make_function, read_input
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    get_text,
    maybe_loads,
)
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import Json, ReplyContext, Target
from gateway.dialects.wire.usage import drop_usage


class EditorUpstream(ChatUpstream):
    """A `ChatUpstream` that takes custom tools which are declared flat, as functions."""

    __slots__ = ()

    def ask(self, body: Json, target: Target) -> Json:
        asked = super().ask(body, target)
        # Most requests have no tools, and need no look at them.
        if "tools" in body and (names := _name_flat(body)):
            return _write_functions(asked, names)
        return asked

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        out, body = super().edit_reply(text, reply, context, tokens), context.request.body
        if "tools" not in body or not (names := _name_flat(body)):
            return out
        # The reply was counted when it was read; each value takes at least a byte.
        with limit_elements(len(out), refuse_reply):
            shown = maybe_loads(out)
            return dumps_lenient(shown) if _show_calls(shown, names) else out

    def open_stream(self, context: ReplyContext) -> Pipeline:
        names = _name_flat(context.request.body)
        return EditorStream(context, names) if names else super().open_stream(context)


def _name_flat(body: Json) -> frozenset[str]:
    """Return the names of the custom tools that a request declares flat."""
    tools = get_list(body, "tools")
    flat = (tool for tool in tools if is_flat(tool) and tool["type"] == "custom")
    return frozenset(tool["name"] for tool in flat)


def _write_functions(body: Json, names: frozenset[str]) -> Json:
    """Write custom tools as functions, also in the choice among tools and in the calls of earlier turns."""

    def write(one: Json, make: Callable[[Json], Json]) -> Json:
        match one:
            case {"type": "custom", "custom": {"name": str(name)} as held} if name in names:
                beside = {key: one[key] for key in one if key != "custom"}
                return {**beside, "type": "function", "function": make(held)}
            case _:
                return one

    made: Json = {
        "tools": [write(tool, lambda held: make_function(Field(held))) for tool in body["tools"]]
    }
    match body.get("tool_choice"):
        case {"type": "allowed_tools", "allowed_tools": dict(allowed)}:
            tools = [write(tool, _name) for tool in get_list(allowed, "tools")]
            held = {**allowed, "tools": tools}
            made["tool_choice"] = {"type": "allowed_tools", "allowed_tools": held}
        case dict(choice):
            made["tool_choice"] = write(choice, _name)
        case _:
            pass
    messages: list[Json] = []
    for message in body["messages"]:
        calls = [write(call, _make_call) for call in get_list(message, "tool_calls")]
        messages.append({**message, "tool_calls": calls} if calls else message)
    return {**body, **made, "messages": messages}


def _name(held: Json) -> Json:
    return {"name": held["name"]}


def _make_call(held: Json) -> Json:
    arguments = dumps_lenient({INPUT_KEY: held.get("input")}).decode()
    return {"name": held["name"], "arguments": arguments}


def _show_calls(reply: Json, names: frozenset[str]) -> bool:
    """Make calls of these functions calls of custom tools, in place; return whether there are any."""
    found = False
    for choice in reply["choices"]:
        message = get_object(choice, "message") if type(choice) is dict else {}
        calls = get_list(message, "tool_calls")
        for number, call in enumerate(calls):
            if type(call) is dict and _read_name(call) in names:
                text = read_input(get_text(call["function"], "arguments"))
                calls[number], found = _show_call(call, text), True
    return found


def _read_name(call: Json) -> str:
    return get_text(get_object(call, "function"), "name")


def _show_call(call: Json, text: str) -> Json:
    """Return a function's call, or a fragment of one, as one of a custom tool with this text."""
    function = get_object(call, "function")
    name = {"name": function["name"]} if "name" in function else {}
    kind = {"type": "custom"} if "type" in call else {}
    beside = {key: call[key] for key in call if key != "function"}
    return {**beside, **kind, "custom": {**name, "input": text}}


class EditorStream(ChatStream):
    """A `ChatStream` in which calls of these functions are calls of custom tools."""

    __slots__ = ("_decoders", "_names")

    def __init__(self, context: ReplyContext, names: frozenset[str]) -> None:
        super().__init__(context)
        self._names = names
        self._decoders: dict[int, dict[int, InputDecoder | None]] = {}
        """The decoders of calls, by the choice's index and the call's; None for the call of a function."""

    def _learn_from(self, block: bytes, chunk: Json) -> None:
        # What a decoder makes of a fragment depends on those before it.
        deltas = (get_object(one, "delta") for one in chunk["choices"] if type(one) is dict)
        if not any(delta.get(key) for delta in deltas for key in ("function_call", "tool_calls")):
            super()._learn_from(block, chunk)

    def _render(self, block: bytes, chunk: Json, chunks: list[Json] | None) -> bytes:
        shown: list[Json] = []
        for part in chunks or [chunk]:
            for choice in part["choices"]:
                if choice.get("finish_reason") is not None:
                    self._add_rests(shown, part, choice)
            shown.append(self._show(part))
        is_same = chunks is None and shown[0] is chunk
        return super()._render(block, chunk, None if is_same else shown)

    def _show(self, part: Json) -> Json:
        choices = [*map(self._show_choice, part["choices"])]
        is_same = all(map(is_, choices, part["choices"]))
        return part if is_same else {**part, "choices": choices}

    def _show_choice(self, choice: Json) -> Json:
        calls = get_list(choice["delta"], "tool_calls")
        if not calls:
            return choice
        decoders = self._decoders.setdefault(choice["index"], {})
        shown: list[Json] = []
        for call in calls:
            is_custom = call["index"] not in decoders and _read_name(call) in self._names
            decoder = decoders.setdefault(call["index"], InputDecoder() if is_custom else None)
            arguments = get_text(get_object(call, "function"), "arguments")
            shown.append(call if decoder is None else _show_call(call, decoder.feed(arguments)))
        if all(map(is_, shown, calls)):
            return choice
        delta = {**without(choice["delta"], {"function_call"}), "tool_calls": shown}
        return {**choice, "delta": delta}

    def _add_rests(self, shown: list[Json], part: Json, choice: Json) -> None:
        """Add the rest of the inputs to the content of a finished choice, or as a chunk before its end."""
        decoders = self._decoders.get(choice["index"], {}).items()
        texts = ((at, decoder.close()) for at, decoder in decoders if decoder is not None)
        rests = [{"index": at, "custom": {"input": text}} for at, text in texts if text]
        if not rests:
            return
        for one in (one for earlier in shown for one in earlier["choices"]):
            if one["index"] == choice["index"] and "role" not in one["delta"]:
                calls = [*get_list(one["delta"], "tool_calls"), *rests]
                one["delta"] = {**one["delta"], "tool_calls": calls}
                return
        body = {**drop_usage(choice), "delta": {"tool_calls": rests}, "finish_reason": None}
        shown.append({**drop_usage(part), "choices": [body]})
        if choice.get("logprobs") is not None:
            choice["logprobs"] = None  # they went before with the content
