"""A chat conversation is written as the items of a Responses request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.chat.state import read_state
from gateway.dialects.chat.writer import BLOCK_SEPARATOR
from gateway.dialects.translate import pivot
from gateway.dialects.wire.fields import Field, is_link
from gateway.dialects.wire.records import Json
from gateway.extras.responses.history import maybe_phase, maybe_reasoning, mend_arguments

_CACHE_MARK: Final = "prompt_cache_breakpoint"
"""The field of a part that both dialects have."""
_TEXT_NAME: Final = "document.txt"
_INSTRUCTING: Final = frozenset({"system", "developer"})


def lift_instructions(items: list[Json], *, everywhere: bool) -> tuple[str, list[Json]]:
    """Take out the leading instructions, or all of them; return them as one text, and the other items.

    Instructions stay if the conversation has nothing else, since the upstream refuses an empty one. Leading
    ones also stay from the first that has a cache mark, as a text has no place for marks.
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
    return BLOCK_SEPARATOR.join(part["text"] for item in lifted for part in item["content"]), left


def _is_plain(item: Json) -> bool:
    """Return whether an item is an instruction whose parts have only a text."""
    return item.get("role") in _INSTRUCTING and all(
        part.keys() == {"type", "text"} for part in item["content"]
    )


class Items(pivot.Conversation):
    """The items of a conversation."""

    __slots__ = ("_custom_ids", "items")

    def __init__(self, messages: Field) -> None:
        """Write the messages as items. Raises BadRequest, naming what cannot be carried over."""
        self.items: list[Json] = []
        self._custom_ids: set[str] = set()
        """Ids of calls of custom tools: their results have a different type."""
        super().__init__(messages)
        if not self.items:
            raise messages.refuse("This model's provider needs a message that is not empty.")

    def _add_instruction(self, message: Field) -> None:
        content = _translate_content(message["content"], pivot.TEXT_PARTS)
        self._add_message(message.get("role"), content)

    def _add_user(self, message: Field) -> None:
        self._add_message("user", _translate_content(message["content"], pivot.ALL_PARTS))

    def _add_assistant(self, message: Field) -> None:
        """Add the reasoning that the upstream encrypted, then the texts, then the calls."""
        begin = len(self.items)
        content = _translate_spoken(message["content"])
        content += _make_spoken("text", pivot.read_transcript(message))
        if (refusal := message["refusal"]).value is not None:
            content += _make_spoken("refusal", refusal.read_string())
        if content:
            self._add_message("assistant", content)
            # A reply's messages have become one. It gets the phase of the last one.
            for phase in read_state(message.value, maybe_phase)[-1:]:
                self.items[-1].update(phase)
        for call in pivot.read_calls(message):
            self._add_call(call)
        if len(self.items) > begin:  # reasoning alone would be refused
            self.items[begin:begin] = read_state(message.value, maybe_reasoning)

    def _add_result(self, identity: str, message: Field) -> None:
        output = message["content"].value
        if not output:
            output = ""
        elif not isinstance(output, str):
            output = _translate_content(message["content"], pivot.ALL_PARTS)
        # The type of a result has to match the type of its call.
        kind = "custom_tool_call" if identity in self._custom_ids else "function_call"
        self.items.append({"type": f"{kind}_output", "call_id": identity, "output": output})

    def _add_message(self, role: str, content: list[Json]) -> None:
        self.items.append({"type": "message", "role": role, "content": content})

    def _add_call(self, call: pivot.Call) -> None:
        identity, name = call.identity, call.name
        if identity is None:
            identity = self._function_ids[name] = f"function_{len(self.items)}"
        kind, said = "custom_tool_call", {"input": call.text}
        if call.is_custom:
            self._custom_ids.add(identity)
        else:
            kind, said = "function_call", {"arguments": mend_arguments(call.text)}
        self.items.append({"type": kind, "call_id": identity, "name": name, **said})


def _translate_content(content: Field, kinds: frozenset[str]) -> list[Json]:
    """Write a string or parts as input parts."""
    if isinstance(content.value, str):
        return [{"type": "input_text", "text": content.value}]
    return [
        pivot.copy_mark(_CACHE_MARK, part, _TRANSLATORS[kind](part[kind]))
        for kind, part in pivot.read_parts(content, kinds)
    ]


def _translate_spoken(content: Field) -> list[Json]:
    """Write an assistant's content as output parts, empty text left out."""
    if content.value is None:
        return []
    if isinstance(content.value, str):
        return _make_spoken("text", content.value)
    said = pivot.read_spoken(content)
    return [made for kind, part in said for made in _make_spoken(kind, part[kind].read_string())]


def _make_spoken(kind: str, text: str) -> list[Json]:
    if not text:
        return []
    if kind == "refusal":
        return [{"type": "refusal", "refusal": text}]
    return [{"type": "output_text", "text": text, "annotations": []}]


def _translate_image(image: Field) -> Json:
    detail = image.get("detail") or "auto"  # the schema requires `detail`
    return {"type": "input_image", "image_url": image["url"].read_text(), "detail": detail}


def _translate_file(file: Field) -> Json:
    """Write a document by its link, beside which OpenAI takes no name, or by its content, which needs one."""
    data, name = file["file_data"].read_text(), file.get("filename")
    if is_link(data):
        return {"type": "input_file", "file_url": data}
    if not (isinstance(name, str) and name):
        name = _TEXT_NAME if data.startswith("data:text/") else pivot.DEFAULT_FILENAME
    return {"type": "input_file", "filename": name, "file_data": data}


_TRANSLATORS: Final[dict[str, Callable[[Field], Json]]] = {
    "text": lambda text: {"type": "input_text", "text": text.read_string()},
    "image_url": _translate_image,
    "file": _translate_file,
}
