"""A chat conversation as Responses input items, in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.chat.state import read_state
from gateway.dialects.chat.writer import NO_ARGUMENTS
from gateway.dialects.chat_over_responses.content import (
    ALL_PARTS,
    TEXT_PARTS,
    make_refusal,
    translate_content,
    translate_spoken,
)
from gateway.dialects.records import Json
from gateway.dialects.responses.history import maybe_reasoning
from gateway.dialects.wire.fields import Field

SEPARATOR: Final = "\n\n"
"""The text between instructions that become one string."""

_INSTRUCTING: Final = frozenset({"system", "developer"})


def translate_conversation(messages: Field) -> list[Json]:
    """Write the messages as items. Raises BadRequest, naming what cannot be carried over."""
    items = _Items()
    for message in messages.read_items():
        _ADDERS[message.get("role")](items, message)
    if not items.items:
        raise messages.refuse("This model's provider needs a message that is not empty.")
    return items.items


def lift_instructions(items: list[Json], *, everywhere: bool) -> tuple[str, list[Json]]:
    """Take the leading instructions out, or all of them, as one text; give it and what is left.

    They stay where they are if nothing else is in the conversation, since the upstream refuses an
    empty one, and from the first one on that has cache marks, which a text has no place for.
    """
    if everywhere:
        lifted = [item for item in items if item.get("role") in _INSTRUCTING]
        left = [item for item in items if item.get("role") not in _INSTRUCTING]
    else:
        bounds = (number for number, item in enumerate(items) if not _is_plain(item))
        count = next(bounds, len(items))
        lifted, left = items[:count], items[count:]
    if not left:
        return "", items
    return SEPARATOR.join(part["text"] for item in lifted for part in item["content"]), left


def _is_plain(item: Json) -> bool:
    """Return whether an item is an instruction whose parts have nothing but their text."""
    return item.get("role") in _INSTRUCTING and all(
        part.keys() == {"type", "text"} for part in item["content"]
    )


class _Items:
    """The items so far."""

    __slots__ = ("_custom_ids", "_function_ids", "items")

    def __init__(self) -> None:
        self.items: list[Json] = []
        self._custom_ids: set[str] = set()
        """Calls of custom tools: their results have a type of their own."""
        self._function_ids: dict[str, str] = {}
        """Calls without an id that wait for a result, by the function's name."""

    def add_instruction(self, message: Field) -> None:
        content = translate_content(message["content"], TEXT_PARTS)
        self._add_message(message.get("role"), content)

    def add_user(self, message: Field) -> None:
        self._add_message("user", translate_content(message["content"], ALL_PARTS))

    def add_assistant(self, message: Field) -> None:
        """Add the reasoning that the upstream encrypted, what was said, then the calls."""
        if message.get("audio") is not None:
            raise message["audio"].refuse("This model's provider has no audio.")
        begin = len(self.items)
        content = translate_spoken(message["content"])
        if (refusal := message["refusal"]).value is not None:
            content += make_refusal(refusal.read_string())
        if content:
            self._add_message("assistant", content)
        if message.get("tool_calls"):
            for call in message["tool_calls"].read_items():
                self._add_call(call)
        if message.get("function_call") is not None:
            self._add_function(message["function_call"])
        if len(self.items) > begin:  # reasoning alone would be refused
            self.items[begin:begin] = read_state(message.value, maybe_reasoning)

    def add_tool_result(self, message: Field) -> None:
        identity = message["tool_call_id"].read_text()
        kind = "custom_tool_call" if identity in self._custom_ids else "function_call"
        self._add_result(f"{kind}_output", identity, message)

    def add_function_result(self, message: Field) -> None:
        identity = self._function_ids.pop(message["name"].read_text(), None)
        if identity is None:
            raise message["name"].refuse("No function call before it waits for it.")
        self._add_result("function_call_output", identity, message)

    def _add_message(self, role: str, content: list[Json]) -> None:
        self.items.append({"type": "message", "role": role, "content": content})

    def _add_call(self, call: Field) -> None:
        identity = call["id"].read_text()
        match call.read_object().get("type", "function"):
            case "function":
                self._add_function(call["function"], identity)
            case "custom":
                tool = call["custom"]
                self._custom_ids.add(identity)
                held = {"name": tool["name"].read_text(), "input": tool["input"].read_string()}
                self.items.append({"type": "custom_tool_call", "call_id": identity, **held})
            case _:
                raise call["type"].refuse("This model's provider takes: custom, function.")

    def _add_function(self, function: Field, identity: str | None = None) -> None:
        """Add a call; one without an id, as it was before tools, is given one."""
        name = function["name"].read_text()
        if identity is None:
            identity = self._function_ids[name] = f"function_{len(self.items)}"
        arguments = function["arguments"]
        given = NO_ARGUMENTS if arguments.value is None else arguments.read_string()
        held = {"name": name, "arguments": given or NO_ARGUMENTS}
        self.items.append({"type": "function_call", "call_id": identity, **held})

    def _add_result(self, kind: str, identity: str, message: Field) -> None:
        output = message["content"].value
        if output is None:
            output = ""
        elif not isinstance(output, str):
            output = translate_content(message["content"], ALL_PARTS)
        self.items.append({"type": kind, "call_id": identity, "output": output})


_ADDERS: Final[dict[str, Callable[[_Items, Field], None]]] = {
    "system": _Items.add_instruction,
    "developer": _Items.add_instruction,
    "user": _Items.add_user,
    "assistant": _Items.add_assistant,
    "tool": _Items.add_tool_result,
    "function": _Items.add_function_result,
}
