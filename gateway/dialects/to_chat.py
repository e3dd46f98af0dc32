"""Callers of other dialects over chat upstreams: what both translations read and write alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.dialects.chat.repair import list_media, read_content, read_reasoning
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_fragment
from gateway.dialects.chat.writer import read_sources
from gateway.dialects.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.errors import UndeliverableReply
from gateway.usage import count_text

DEFAULT_FILENAME: Final = "document.pdf"
"""The name of a document without one: a chat upstream requires it."""
MAX_HELD_CHARS: Final = 8 << 20
"""Characters held of one stream, such as text that its last event repeats, or arguments that wait. It is
the length of the largest event."""

Kind = Literal["reasoning", "text", "refusal"]


def make_text(text: str) -> Json:
    return {"type": "text", "text": text}


def make_file(name: str, data: str) -> Json:
    file = {"filename": name} if name else {}
    return {"type": "file", "file": {**file, "file_data": data}}


@dataclass(slots=True)
class Said:
    """The contents of a message, or of a delta, in the order in which models make them."""

    reasoning: str
    text: str
    sources: list[Json]
    """The pages that the text is based on."""
    media: list[Any]
    """Pictures and recordings."""
    refusal: str
    calls: list[Any]


def read_said(message: Json) -> Said:
    """Read a message or a delta."""
    thinking, text = read_content(message.get("content"))
    return Said(
        read_reasoning(message) or thinking,
        text,
        read_sources(message),
        list_media(message),
        get_text(message, "refusal"),
        get_list(message, "tool_calls"),
    )


def read_call(call: Any) -> tuple[str, str, object]:
    """Read the id, the name and the arguments of a whole call, which may lack all but the name."""
    match call:
        case {"function": {"name": str(name)} as function} if name:
            return get_text(call, "id"), name, function.get("arguments")
        case _:
            raise unnamed_call()


def unnamed_call() -> UndeliverableReply:
    return UndeliverableReply("The upstream called a tool without naming it.")


class FirstChoiceWriter(ABC):
    """The part of a `EventWriter` that reads chunks: the first choice alone, as callers ask for one."""

    __slots__ = (
        "_content_chars", "_context", "_held_chars", "_index", "_next_index", "_out", "_sources",
        "_state", "text_bytes",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        self.text_bytes = 0
        """See `EventWriter`."""
        self._context = context
        self._state = StateCollector(context.provider_tag)
        self._index: int | None = None
        """The index of the choice that is written."""
        self._next_index = 0
        """The number of blocks or items so far."""
        self._content_chars = 0
        self._held_chars = 0
        self._sources: list[Json] = []
        """Sources that wait for the text that they are about."""
        self._out: list[bytes] = []

    @property
    def delivered(self) -> bool:
        """See `EventWriter`: a block or an item is opened for text, or for a tool that has a name."""
        return self._next_index > 0

    def write(self, event: Json) -> None:
        for choice in event["choices"]:
            if isinstance(choice, dict):
                if self._index is None:
                    self._index = choice["index"]
                if choice["index"] == self._index:
                    self._write_choice(choice)

    def take(self) -> bytes:
        """Return the events since the last call."""
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _write_choice(self, choice: Json) -> None:
        delta = get_object(choice, "delta")
        self._state.add(delta)
        said = read_said(delta)
        self._add_text("reasoning", said.reasoning)
        self._add_text("text", said.text)
        if said.sources:
            self._add_sources(said.sources)
        for media in said.media:
            self._add_media(media)
        self._add_text("refusal", said.refusal)
        for call in said.calls:
            if isinstance(call, dict):
                position, identity, name, arguments = read_fragment(call)
                # Arguments count when they come: those that still wait were made, too.
                self.text_bytes += count_text(arguments)
                self._add_call(position, identity, name, arguments)
        if choice.get("finish_reason") is not None:  # fragments behind it are too late
            check_finish(choice["finish_reason"])
            self._finish(choice)
            self.flush()

    def _add_text(self, kind: Kind, text: str) -> None:
        if text:
            self.text_bytes += count_text(text)
            self._write_text(kind, text)

    def _hold(self, text: str) -> None:
        self._held_chars += len(text)
        if self._held_chars > MAX_HELD_CHARS:
            raise UndeliverableReply("The upstream's reply is too large.")

    @abstractmethod
    def open(self, usage: ReplyUsage) -> None:
        """See `EventWriter`."""

    @abstractmethod
    def flush(self) -> None:
        """See `EventWriter`."""

    @abstractmethod
    def _write_text(self, kind: Kind, text: str) -> None: ...

    @abstractmethod
    def _add_sources(self, sources: list[Json]) -> None:
        """Add sources of the text."""

    @abstractmethod
    def _add_media(self, media: Any) -> None:
        """Add a picture or a recording."""

    @abstractmethod
    def _add_call(self, position: int, identity: str, name: str, arguments: str) -> None:
        """Add a fragment of the call at `position`; identity, name and arguments may each be empty."""

    @abstractmethod
    def _finish(self, choice: Json) -> None:
        """Note the choice as it is when it has its finish reason."""
