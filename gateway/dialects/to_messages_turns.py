"""A chat conversation as messages turns: who said what, in which order (wire.md §5.1). No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

import orjson

from gateway.dialects.checks import Json, wrong_type
from gateway.dialects.to_messages_checks import (
    expect_list,
    expect_object,
    expect_text,
    unsupported_value,
)
from gateway.dialects.to_messages_parts import (
    ALL_PARTS,
    SPOKEN_PARTS,
    TEXT_PARTS,
    make_text,
    to_blocks,
)
from gateway.errors import BadRequest

INSTRUCTING_ROLES: Final = frozenset({"system", "developer"})

_FOREIGN_ID_CHARS = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class Conversation:
    """What became of the chat messages."""

    system: list[Json]
    """Text blocks of the leading instructions, in order."""
    turns: list[Json]
    called: list[str]
    """Names of the tools that were called in it, in order, each once."""


def to_conversation(messages: list[Json]) -> Conversation:
    """Raises BadRequest, naming the message, for what cannot be carried over.

    Only the leading instructions become `system`; later ones stay where they stand, since moving
    them would change what they mean and spoil the cached prefix.
    """
    system: list[Json] = []
    leading = list(takewhile(lambda one: one["role"] in INSTRUCTING_ROLES, messages))
    for index, message in enumerate(leading):
        where = f"messages[{index}].content"
        system += to_blocks(where, message.get("content"), TEXT_PARTS)
    turns = _Turns()
    for index, message in enumerate(messages[len(leading) :], start=len(leading)):
        _ADDERS[message["role"]](turns, f"messages[{index}]", message)
    if not turns.turns:
        raise unsupported_value(
            "messages",
            "This model's provider needs a message with some text that is neither a system nor "
            "a developer message.",
        )
    return Conversation(system, turns.turns, list(dict.fromkeys(turns.called)))


class _Turns:
    """The turns so far. Results of tools open a user turn, which the user's next words join."""

    __slots__ = ("_function_ids", "_results", "called", "turns")

    def __init__(self) -> None:
        self.turns: list[Json] = []
        self.called: list[str] = []
        self._results = 0
        """Results at the head of the last turn; 0 when none opened it."""
        self._function_ids: dict[str, str] = {}
        """Calls without an id that wait for a result, by the function's name."""

    def add_instruction(self, where: str, message: Json) -> None:
        self._append("system", to_blocks(f"{where}.content", message.get("content"), TEXT_PARTS))

    def add_user(self, where: str, message: Json) -> None:
        blocks = to_blocks(f"{where}.content", message.get("content"), ALL_PARTS)
        if self._results:
            self.turns[-1]["content"] += blocks
        else:
            self._append("user", blocks)

    def add_assistant(self, where: str, message: Json) -> None:
        """`reasoning_content` is left out: thinking goes back only with its signature."""
        if message.get("audio") is not None:
            raise unsupported_value(f"{where}.audio", "This model's provider has no audio.")
        blocks = to_blocks(f"{where}.content", message.get("content"), SPOKEN_PARTS)
        refusal = message.get("refusal")
        if isinstance(refusal, str):
            blocks += make_text(refusal)
        calls = message.get("tool_calls") or []
        for index, call in enumerate(expect_list(f"{where}.tool_calls", calls)):
            blocks.append(self._read_call(f"{where}.tool_calls[{index}]", call))
        if (function := message.get("function_call")) is not None:
            identity = f"function_{len(self.called)}"
            blocks.append(self._read_function(f"{where}.function_call", function, identity))
            self._function_ids[self.called[-1]] = identity
        self._append("assistant", blocks)

    def add_tool_result(self, where: str, message: Json) -> None:
        identity = expect_text(f"{where}.tool_call_id", message.get("tool_call_id"))
        self._add_result(where, _shape_id(identity), message)

    def add_function_result(self, where: str, message: Json) -> None:
        name = expect_text(f"{where}.name", message.get("name"))
        identity = self._function_ids.pop(name, None)
        if identity is None:
            raise unsupported_value(f"{where}.name", "No function call before it waits for it.")
        self._add_result(where, identity, message)

    def _add_result(self, where: str, identity: str, message: Json) -> None:
        result: Json = {"type": "tool_result", "tool_use_id": identity}
        content = message.get("content")
        if not isinstance(content, str):
            content = to_blocks(f"{where}.content", content, ALL_PARTS)
        if content and (not isinstance(content, str) or content.strip()):
            result["content"] = content
        if self._results:
            self.turns[-1]["content"].insert(self._results, result)
            self._results += 1
        else:
            self._append("user", [result])
            self._results = 1

    def _append(self, role: str, blocks: list[Json]) -> None:
        """A turn, unless nothing is in it."""
        if blocks:
            self.turns.append({"role": role, "content": blocks})
            self._results = 0

    def _read_call(self, where: str, item: Any) -> Json:
        call = expect_object(where, item)
        if call.get("type", "function") != "function":
            raise unsupported_value(f"{where}.type", "This model's provider takes functions alone.")
        identity = _shape_id(expect_text(f"{where}.id", call.get("id")))
        return self._read_function(f"{where}.function", call.get("function"), identity)

    def _read_function(self, where: str, item: Any, identity: str) -> Json:
        function = expect_object(where, item)
        name = expect_text(f"{where}.name", function.get("name"))
        self.called.append(name)
        arguments = _read_arguments(f"{where}.arguments", function.get("arguments"))
        return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


_ADDERS: Final[dict[str, Callable[[_Turns, str, Json], None]]] = {
    "system": _Turns.add_instruction,
    "developer": _Turns.add_instruction,
    "user": _Turns.add_user,
    "assistant": _Turns.add_assistant,
    "tool": _Turns.add_tool_result,
    "function": _Turns.add_function_result,
}


def _read_arguments(name: str, arguments: Any) -> Json:
    if arguments is None:
        return {}
    if not isinstance(arguments, str):
        raise wrong_type(name, "a string", arguments)
    try:
        value = orjson.loads(arguments.strip() or "{}")
    except orjson.JSONDecodeError as error:
        raise _not_arguments(name) from error
    if not isinstance(value, dict):
        raise _not_arguments(name)
    return value


def _not_arguments(name: str) -> BadRequest:
    return BadRequest(
        f"Invalid '{name}': this model's provider takes the JSON of an object alone.",
        param=name,
        code="invalid_value",
    )


def _shape_id(identity: str) -> str:
    """Ids from other providers (`functions.get:0`) in the characters that the upstream takes."""
    return _FOREIGN_ID_CHARS.sub(lambda char: f"_{ord(char[0]):x}", identity)
