"""A Responses request's input as chat messages.

A chat upstream wants one system message at the beginning, one message for all texts and calls of the
assistant in a row, and their results right after it, whatever the order of the items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from gateway.dialects.chat.state import add_state
from gateway.dialects.chat.writer import BLOCK_SEPARATOR, make_result, pack_parts
from gateway.dialects.translate.earlier import pair_calls, tell
from gateway.dialects.translate.pivot import make_text, read_id, read_text
from gateway.dialects.wire.customs import INPUT_KEY
from gateway.dialects.wire.fields import Field, dump_request
from gateway.dialects.wire.jsonbytes import get_list, get_text
from gateway.dialects.wire.records import Json, Target
from gateway.extras.responses.compaction import REQUEST, TRIGGER, maybe_summary
from gateway.extras.responses.history import SUMMARIES, mend_arguments, refuse_summary
from gateway.extras.responses.over_chat_parts import (
    is_sealed,
    read_spoken,
    read_texts,
    translate_part,
)
from gateway.extras.responses.over_chat_tools import read_flat_name

DROPPED_ITEMS: Final = frozenset(
    {
        "additional_tools",  # its tools are read with the others
        *("apply_patch_call", "apply_patch_call_output", "code_interpreter_call"),
        *("computer_call", "computer_call_output", "configuration_update"),
        *("file_search_call", "ghost_snapshot", "image_generation_call", "local_shell_call"),
        *("local_shell_call_output", "mcp_approval_request", "mcp_approval_response", "mcp_call"),
        *("mcp_list_tools", "program", "program_output", "shell_call", "shell_call_output"),
        *("tool_search_call", "tool_search_output", "web_search_call"),
    }
)
"""Items that only the vendor's servers can use, and calls of tools that are left out. Any text in them is
carried over."""


def translate_conversation(body: Field, target: Target) -> list[Json]:
    """Write the chat messages of a request. Raises BadRequest, naming the field.

    Later instructions stay in place, unless the upstream takes only leading ones.
    """
    conversation = _Conversation(target)
    if (instructions := body["instructions"]).value:
        conversation.system += read_texts(instructions)
    given = body["input"]
    if isinstance(given.value, str):
        conversation.turns.append(_Turn({"role": "user", "content": given.value}))
    else:
        for item in given.read_items():
            if conversation.is_over:
                raise item.refuse(f"An item of the type {TRIGGER} has to be the last one.")
            conversation.add(item)
    if (lost := conversation.lost) is not None:
        raise lost["type"].refuse_field()
    if not conversation.turns:
        raise given.refuse("It has no message in it.")
    return conversation.write()


@dataclass(slots=True)
class _Turn:
    """A message, and the messages that must follow it, even if their items come later."""

    message: Json
    results: list[Json] = field(default_factory=list)
    files: list[Json] = field(default_factory=list)
    """Parts that a tool message cannot hold."""


class _Conversation:
    """The turns so far, to which items are added one by one."""

    __slots__ = (
        "_askers", "_left_out", "_state", "_target", "is_over", "lost", "system", "turns",
    )  # fmt: skip

    def __init__(self, target: Target) -> None:
        self._target = target
        self.system: list[str] = []
        self.turns: list[_Turn] = []
        self._askers: dict[str, _Turn] = {}
        """The turns with calls, by the ids of the calls."""
        self._left_out: set[object] = set()
        """The ids of calls that are left out. Their results are left out, too."""
        self.lost: Field | None = None
        """An unknown item without text at the end of the input: leaving it out would lose its meaning."""
        self._state: list[tuple[str, str]] = []
        """Seals and texts of reasoning that belong to the assistant's next text or call."""
        self.is_over = False
        """A summary was requested, so no item can follow."""

    def add(self, item: Field) -> None:
        kind = item.get("type")
        if kind is None and "role" in item.value:
            kind = "message"
        if not isinstance(kind, str):
            raise item["type"].wrong_type("a string")
        if kind in self._ADDERS:
            self._ADDERS[kind](self, item)
        elif said := tell(kind, item.value):
            if item.get("role") == "user":
                self.turns.append(_Turn({"role": "user", "content": said}))
            else:
                self._say(said)
        elif kind in DROPPED_ITEMS:
            # A result without its call would be refused, so it is left out with the call.
            self._left_out.add(get_text(item.value, "call_id"))
        else:
            self.lost = item
            return
        self.lost = None

    def write(self) -> list[Json]:
        out: list[Json] = []
        if self.system:
            out.append({"role": "system", "content": BLOCK_SEPARATOR.join(self.system)})
        for turn in self.turns:
            out += (turn.message, *turn.results)
            if turn.files:
                out.append({"role": "user", "content": turn.files})
        return [message for _, message in pair_calls(out)]

    def _add_message(self, item: Field) -> None:
        content = item["content"]
        match item.get("role"):
            case "system" | "developer":
                self._instruct([*filter(None, read_texts(content))])
            case "assistant":
                if said := "".join(read_spoken(content)):
                    self._say(said)
            case "user":
                self._state.clear()  # the assistant's turn did not come
                parts = pack_parts(self._translate(content))
                self.turns.append(_Turn({"role": "user", "content": parts}))
            case _:
                raise item["role"].refuse("It must be user, assistant, system or developer.")

    def _instruct(self, texts: list[str]) -> None:
        if not self.turns:
            self.system += texts
        elif texts:
            message = {"role": "system", "content": BLOCK_SEPARATOR.join(texts)}
            self.turns.append(_Turn(message))

    def _add_agent_message(self, item: Field) -> None:
        """Add another agent's message to this one. Coding agents send such items, which the schema lacks."""
        parts = self._translate(item["content"])
        if parts:
            self.turns.append(_Turn({"role": "user", "content": pack_parts(parts)}))

    def _add_summary(self, item: Field) -> None:
        text = maybe_summary(item.value)
        if text is None:
            raise refuse_summary(item)
        self._state.clear()
        self.turns.append(_Turn({"role": "user", "content": text}))

    def _ask_summary(self, item: Field) -> None:
        if not self.turns:
            raise item.refuse("There is no conversation before it that could be summarised.")
        self._state.clear()
        self.turns.append(_Turn({"role": "user", "content": REQUEST}))
        self.is_over = True

    def _translate(self, content: Field) -> list[Json]:
        if isinstance(content.value, str):
            return [make_text(content.value)]
        parts = (part for part in content.read_items() if not is_sealed(part))
        return [translate_part(part, is_pivot=self._target.is_pivot) for part in parts]

    def _add_reasoning(self, item: Field) -> None:
        parts = get_list(item.value, "content") or get_list(item.value, "summary")
        texts = (get_text(part, "text") for part in parts if isinstance(part, dict))
        sealed = get_text(item.value, "encrypted_content")
        self._state.append((sealed, "\n\n".join(texts)))

    def _say(self, text: str) -> None:
        message = self._open_assistant().message
        texts = filter(None, (message["content"], text))
        message["content"] = BLOCK_SEPARATOR.join(texts) or message["content"]

    def _add_call(self, item: Field) -> None:
        self._call(item, mend_arguments(read_text(item["arguments"])))

    def _add_custom_call(self, item: Field) -> None:
        self._call(item, dump_request({INPUT_KEY: item["input"].read_string()}).decode())

    def _call(self, item: Field, arguments: str) -> None:
        identity = read_id(item["call_id"])
        function = {"name": read_flat_name(item), "arguments": arguments}
        turn = self._open_assistant()
        calls = turn.message.setdefault("tool_calls", [])
        calls.append({"id": identity, "type": "function", "function": function})
        turn.message["content"] = turn.message["content"] or None
        self._askers[identity] = turn

    def _open_assistant(self) -> _Turn:
        """Return the assistant's last turn, if it has no results yet, or else a new one."""
        last = self.turns[-1] if self.turns else None
        if last is None or last.message["role"] != "assistant" or last.results:
            last = _Turn({"role": "assistant", "content": ""})
            self.turns.append(last)
        if self._state:
            sealed, reasoning = zip(*self._state, strict=True)
            add_state(last.message, [*sealed], [*reasoning])
            self._state.clear()
        return last

    def _add_result(self, item: Field) -> None:
        identity = read_id(item["call_id"])
        asker = self._askers.get(identity)
        given = item["output"]
        output = self._translate(given) if given.value else []
        result, files = make_result(identity, output)
        if asker is None and identity in self._left_out:
            return
        if asker is None:
            self.turns.append(_Turn(result, files=files))
        else:
            asker.results.append(result)
            asker.files += files

    _ADDERS: ClassVar[dict[str, Callable[[_Conversation, Field], None]]] = {
        "message": _add_message,
        "agent_message": _add_agent_message,
        "reasoning": _add_reasoning,
        "function_call": _add_call,
        "function_call_output": _add_result,
        "custom_tool_call": _add_custom_call,
        "custom_tool_call_output": _add_result,
        **dict.fromkeys(SUMMARIES, _add_summary),
        TRIGGER: _ask_summary,
    }
    """Keys are types of items."""
