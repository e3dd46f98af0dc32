"""A chat conversation as messages turns: who said what, in which order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.dialects.chat.state import read_state
from gateway.dialects.chat_over_messages.content import (
    ALL_PARTS,
    SPOKEN_PARTS,
    TEXT_PARTS,
    make_text,
    translate_content,
)
from gateway.dialects.messages.history import maybe_thinking, read_input, shape_id
from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field


@dataclass(frozen=True, slots=True)
class Conversation:
    """The chat messages as messages turns."""

    system: list[Json]
    """Text blocks of the leading instructions, in order."""
    turns: list[Json]
    called: list[str]
    """Names of the tools that were called in it, in order, each once."""


def translate_conversation(field: Field, *, leading_system: bool) -> Conversation:
    """Write the messages as turns. Raises BadRequest, naming what cannot be carried over.

    Only the leading instructions become `system`; later ones stay where they stand, since moving
    them would change what they mean and spoil the cached prefix. With `leading_system` they go
    there all the same: the provider takes no others.
    """
    messages = field.read_items()
    turns = _Turns(leading_system=leading_system)
    for message in messages:
        _ADDERS[message.get("role")](turns, message)
    turns.add_late()
    if not turns.turns:
        raise field.refuse(
            "This model's provider needs a message with some text that is neither a system nor "
            "a developer message."
        )
    return Conversation(turns.system, turns.turns, list(dict.fromkeys(turns.called)))


class _Turns:
    """The turns so far. Results of tools open a user turn, which the user's next words join."""

    __slots__ = (
        "_function_ids", "_late", "_leading_system", "_results", "_unanswered", "called", "system",
        "turns",
    )  # fmt: skip

    def __init__(self, *, leading_system: bool) -> None:
        self._leading_system = leading_system
        self.system: list[Json] = []
        self.turns: list[Json] = []
        self.called: list[str] = []
        self._results = 0
        """Results at the head of the last turn; 0 when none opened it."""
        self._function_ids: dict[str, str] = {}
        """Calls without an id that wait for a result, by the function's name."""
        self._unanswered: set[str] = set()
        """Calls of the last turn that wait for a result."""
        self._late: list[Json] = []
        """Instructions that wait for those results, which come right behind their calls."""

    def add_instruction(self, message: Field) -> None:
        blocks = translate_content(message["content"], TEXT_PARTS)
        if self._leading_system or not self.turns:
            self.system += blocks
        elif self._unanswered:
            self._late += blocks
        else:
            self._append("system", blocks)

    def add_late(self) -> None:
        """Append the instructions that waited."""
        late, self._late = self._late, []
        self._append("system", late)

    def add_user(self, message: Field) -> None:
        blocks = translate_content(message["content"], ALL_PARTS)
        self.add_late()
        if self._results:
            self.turns[-1]["content"] += blocks
        else:
            self._append("user", blocks)

    def add_assistant(self, message: Field) -> None:
        """Add an assistant turn, its thinking only as the upstream signed it."""
        if message.get("audio") is not None:
            raise message["audio"].refuse("This model's provider has no audio.")
        blocks = translate_content(message["content"], SPOKEN_PARTS)
        refusal = message.get("refusal")
        if isinstance(refusal, str):
            blocks += make_text(refusal)
        if message.get("tool_calls"):
            blocks += (self._read_call(call) for call in message["tool_calls"].read_items())
        if message.get("function_call") is not None:
            identity = f"function_{len(self.called)}"
            blocks.append(self._read_function(message["function_call"], identity))
            self._function_ids[self.called[-1]] = identity
        self.add_late()
        self._append("assistant", blocks and read_state(message.value, maybe_thinking) + blocks)
        self._unanswered = {block["id"] for block in blocks if block["type"] == "tool_use"}

    def add_tool_result(self, message: Field) -> None:
        self._add_result(shape_id(message["tool_call_id"].read_text()), message)

    def add_function_result(self, message: Field) -> None:
        identity = self._function_ids.pop(message["name"].read_text(), None)
        if identity is None:
            raise message["name"].refuse("No function call before it waits for it.")
        self._add_result(identity, message)

    def _add_result(self, identity: str, message: Field) -> None:
        result: Json = {"type": "tool_result", "tool_use_id": identity}
        content = message.get("content")
        if not isinstance(content, str):
            content = translate_content(message["content"], ALL_PARTS)
        if content and (not isinstance(content, str) or content.strip()):
            result["content"] = content
        if self._results:
            self.turns[-1]["content"].insert(self._results, result)
            self._results += 1
        else:
            self._append("user", [result])
            self._results = 1
        self._unanswered.discard(identity)
        if not self._unanswered:
            self.add_late()

    def _append(self, role: str, blocks: list[Json]) -> None:
        """Append a turn, unless nothing is in it."""
        if blocks:
            self.turns.append({"role": role, "content": blocks})
            self._results = 0

    def _read_call(self, call: Field) -> Json:
        if call.read_object().get("type", "function") != "function":
            raise call["type"].refuse("This model's provider takes functions alone.")
        return self._read_function(call["function"], shape_id(call["id"].read_text()))

    def _read_function(self, function: Field, identity: str) -> Json:
        name = function["name"].read_text()
        self.called.append(name)
        arguments = function["arguments"]
        given = "" if arguments.value is None else arguments.read_string()
        return {"type": "tool_use", "id": identity, "name": name, "input": read_input(given)}


_ADDERS: Final[dict[str, Callable[[_Turns, Field], None]]] = {
    "system": _Turns.add_instruction,
    "developer": _Turns.add_instruction,
    "user": _Turns.add_user,
    "assistant": _Turns.add_assistant,
    "tool": _Turns.add_tool_result,
    "function": _Turns.add_function_result,
}
