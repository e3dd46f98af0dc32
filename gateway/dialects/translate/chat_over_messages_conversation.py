"""A chat conversation as messages turns: their roles, order and blocks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from gateway.dialects.chat.state import read_state
from gateway.dialects.messages.history import Place, maybe_placed, read_input
from gateway.dialects.translate import pivot
from gateway.dialects.wire.customs import INPUT_KEY
from gateway.dialects.wire.fields import Field, is_link, maybe_read_text, split_data_url
from gateway.dialects.wire.records import Json

CACHE_MARK: Final = "cache_control"
"""The upstream's cache mark, which chat callers may use, too."""
REMINDER: Final = "<system-reminder>\n{}\n</system-reminder>"
"""Marks an instruction inside a user's message, as Claude Code does."""
_MEDIA_TYPES: Final = {
    **{name: name for name in ("image/jpeg", "image/png", "image/gif", "image/webp")},
    "image/jpg": "image/jpeg",
}
"""The pictures that the upstream takes; `image/jpg` is a common slip."""
_PICTURES: Final = {
    "/9j/": "image/jpeg", "iVBORw0KGgo": "image/png", "R0lGOD": "image/gif", "UklGR": "image/webp",
}  # fmt: skip
"""Media types by the first characters of a picture's base64: the upstream refuses a wrong type."""
_PDF: Final = "application/pdf"
_PDF_BEGIN: Final = "JVBERi"
"""The base64 of `%PDF`, which identifies a document without a media type."""


class MessagesTurns(pivot.Conversation):
    """The turns of a conversation.

    Only the leading instructions become `system`. Later ones stay in place, since moving them would change
    their meaning and the cached prefix. They become text of the user: only Claude's newest models take the
    role `system` there, and only between a user's and an assistant's turn. With `leading_system`, all
    instructions become `system`.
    """

    __slots__ = ("_has_results", "_leading_system", "called", "system", "turns")

    def __init__(self, messages: Field, *, leading_system: bool) -> None:
        """Write the messages as turns. Raises BadRequest, naming what cannot be carried over."""
        self._leading_system = leading_system
        self.system: list[Json] = []
        """Text blocks of the leading instructions, in order."""
        self.turns: list[Json] = []
        self.called: list[str] = []
        """Names of the tools that were called, in order."""
        self._has_results = False
        """The last turn begins with results."""
        super().__init__(messages)
        if not self.turns:  # instructions alone become a user's turn: the upstream requires one
            self._append("user", self.system)
            self.system = []
        if not self.turns:
            raise messages.refuse("This model's provider needs a message with some text.")
        last = self.turns[-1]
        # The upstream refuses trailing white space in a last turn of the assistant.
        if last["role"] == "assistant" and (text := last["content"][-1].get("text")):
            last["content"][-1] = {**last["content"][-1], "text": text.rstrip()}

    def _add_instruction(self, message: Field) -> None:
        blocks = _mark(message, _translate_content(message["content"], pivot.TEXT_PARTS))
        if self._leading_system or not self.turns:
            self.system += blocks
        else:
            self._add_words([{**one, "text": REMINDER.format(one["text"])} for one in blocks])

    def _add_user(self, message: Field) -> None:
        self._add_words(_mark(message, _translate_content(message["content"], pivot.ALL_PARTS)))

    def _add_words(self, blocks: list[Json]) -> None:
        if self._has_results:  # the upstream wants results and the user's next words in one turn
            self.turns[-1]["content"] += blocks
        else:
            self._append("user", blocks)

    def _add_assistant(self, message: Field) -> None:
        """Add an assistant turn. Thinking is added only if the upstream signed it, at its former place."""
        blocks = _translate_content(message["content"], None)
        blocks += _make_text(pivot.read_transcript(message))
        if isinstance(refusal := message.get("refusal"), str):
            blocks += _make_text(refusal)
        calls: list[Json] = []
        for call in pivot.read_calls(message):
            identity, name = call.identity, call.name
            if identity is None:
                identity = self._function_ids[name] = f"function_{len(self.called)}"
            self.called.append(name)
            given = {INPUT_KEY: call.text} if call.is_custom else read_input(call.text)
            calls.append({"type": "tool_use", "id": identity, "name": name, "input": given})
        self._append("assistant", _mark(message, _weave(message.value, blocks, calls)))

    def _add_result(self, identity: str, message: Field) -> None:
        result: Json = {"type": "tool_result", "tool_use_id": identity}
        content = message.get("content")
        if not isinstance(content, str):
            content = _translate_content(message["content"], pivot.ALL_PARTS)
            for block in content:  # the upstream takes a mark on the result, but none inside it
                if (mark := block.pop(CACHE_MARK, None)) is not None:
                    result[CACHE_MARK] = mark
        if content and (not isinstance(content, str) or content.strip()):
            result["content"] = content
        result = _mark(message, [result])[0]
        if self._has_results:  # results of one turn go back in one turn
            self.turns[-1]["content"].append(result)
        else:
            self._append("user", [result])
            self._has_results = True

    def _append(self, role: str, blocks: list[Json]) -> None:
        """Append a turn unless it is empty: the upstream refuses empty turns."""
        if blocks:
            self.turns.append({"role": role, "content": blocks})
            self._has_results = False


def _weave(message: Json, said: list[Json], calls: list[Json]) -> list[Json]:
    """Return the blocks of a turn. The upstream takes thinking only at its old place, and not at the end."""
    text = "".join(one["text"] for one in said)
    found = read_state(message, maybe_placed)
    placed = [*zip(found, _find_cuts(text, [one.pop("at") for one in found]), strict=True)]
    # Texts with a cache mark are not cut, so thinking within them is left out, which the upstream accepts.
    if any(CACHE_MARK in one for one in said):
        placed = [one for one in placed if one[1] == (0, 0)]
    woven: list[Json] = []
    waiting: list[Json] = []
    start = count = 0
    for thinking, (end, before) in placed:
        if between := [*_make_text(text[start:end]), *calls[count:before]]:
            woven += [*waiting, *between]
            waiting.clear()
        start, count = end, before
        waiting.append(thinking)
    rest = [*(_make_text(text[start:]) if start else said), *calls[count:]]
    return [*woven, *waiting, *rest] if rest else woven


def _find_cuts(text: str, places: list[Place]) -> list[tuple[int, int]]:
    """Return for each place the text before it (its length, with white space) and the number of calls.

    All are at the beginning, (0, 0), unless the places are of one reply whose text begins the turn.
    """
    solid = (at for at, char in enumerate(text) if not char.isspace())
    here = Place(places[0].reply if places else "")
    cuts: list[tuple[int, int]] = []
    end = seen = 0
    for place in places:
        if here.chars < place.chars <= len(text):
            start, end = end, next(islice(solid, place.chars - seen, None), len(text))
            here, seen = here.add(text[start:end]), place.chars + 1
        if here[:3] != place[:3] or place.calls < here.calls:
            return [(0, 0)] * len(places)
        here = place
        cuts.append((end, place.calls))
    return cuts


def _mark(message: Field, blocks: list[Json]) -> list[Json]:
    """Put the cache mark of a whole message, if it has one, on its last block."""
    marked = blocks and isinstance(message.get(CACHE_MARK), dict)
    return [*blocks[:-1], pivot.copy_mark(CACHE_MARK, message, blocks[-1])] if marked else blocks


def _translate_content(content: Field, kinds: frozenset[str] | None) -> list[Json]:
    """Write a string or parts as blocks. `kinds`: the parts allowed; None for an earlier reply."""
    if content.value is None:
        return []
    if isinstance(content.value, str):
        return _make_text(content.value)
    blocks: list[Json] = []
    parts = pivot.read_spoken(content) if kinds is None else pivot.read_parts(content, kinds)
    for kind, part in parts:
        is_file, held = kind in _FILES, part[kind]
        made = [_FILES[kind](held)] if is_file else _make_text(held.read_string())
        blocks += (pivot.copy_mark(CACHE_MARK, part, block) for block in made)
    return blocks


def _make_text(text: str) -> list[Json]:
    """Write a text block; none for blank text, which the upstream refuses."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _translate_image(image: Field) -> Json:
    field = image["url"]
    url = field.read_text()
    if is_link(url):
        return {"type": "image", "source": {"type": "url", "url": url}}
    told, data = split_data_url(url)
    found = (kind for begin, kind in _PICTURES.items() if data.startswith(begin))
    media_type = next(found, _MEDIA_TYPES.get(told)) if told.startswith("image/") else None
    if media_type is None:
        raise field.refuse(
            "This model's provider takes https URLs, and data URLs with base64 of a JPEG, PNG, "
            "GIF or WebP picture."
        )
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _translate_file(file: Field) -> Json:
    source = _maybe_source(file["file_data"].read_text())
    if source is None:
        raise file["file_data"].refuse(
            "This model's provider takes https URLs, and data URLs with base64 of a PDF or a text."
        )
    block: Json = {"type": "document", "source": source}
    title = file.get("filename")
    return {**block, "title": title} if isinstance(title, str) and title.strip() else block


def _maybe_source(file: str) -> Json | None:
    if is_link(file):
        return {"type": "url", "url": file}
    if (text := maybe_read_text(file)) is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    media_type, data = (_PDF, file) if file.startswith(_PDF_BEGIN) else split_data_url(file)
    return {"type": "base64", "media_type": _PDF, "data": data} if media_type == _PDF else None


_FILES: Final[dict[str, Callable[[Field], Json]]] = {
    "image_url": _translate_image,
    "file": _translate_file,
}
