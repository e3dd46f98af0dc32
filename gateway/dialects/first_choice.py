"""A chat upstream's reply, of which translations read only the first choice: its contents, in order."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.dialects.base import EventWriter
from gateway.dialects.chat.repair import list_media, read_content, read_reasoning
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_arguments
from gateway.dialects.chat.writer import read_sources
from gateway.dialects.records import Json, ReplyContext
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.errors import UndeliverableReply
from gateway.usage import count_text

MAX_BUFFERED_CHARS: Final = 8 << 20
"""Characters buffered for one stream, such as text that its last event repeats, or waiting arguments. As
many as the largest event has."""

Kind = Literal["reasoning", "text", "refusal"]


@dataclass(slots=True)
class Contents:
    """The contents of a message or a delta, in the order in which models make them."""

    reasoning: str
    text: str
    sources: list[Json]
    """The pages that the text is based on."""
    media: list[Any]
    """Pictures and recordings."""
    refusal: str
    calls: list[Any]


def read_contents(message: Json) -> Contents:
    """Read a message or a delta."""
    thinking, text = read_content(message.get("content"))
    return Contents(
        read_reasoning(message) or thinking,
        text,
        read_sources(message),
        list_media(message),
        get_text(message, "refusal"),
        get_list(message, "tool_calls"),
    )


def read_call(call: Any) -> tuple[str, str, object]:
    """Read the id, the name and the arguments of a whole call. Only the name is required."""
    match call:
        case {"function": {"name": str(name)} as function} if name:
            return get_text(call, "id"), name, function.get("arguments")
        case _:
            raise unnamed_call()


def unnamed_call() -> UndeliverableReply:
    return UndeliverableReply("The upstream called a tool without naming it.")


class FirstChoiceWriter(EventWriter):
    """The part of an `EventWriter` that reads chunks: only the first choice, as callers ask for one."""

    __slots__ = (
        "_buffered_chars", "_content_chars", "_context", "_index", "_next_index", "_sources",
        "_state",
    )  # fmt: skip

    def __init__(self, context: ReplyContext) -> None:
        super().__init__()
        self._context = context
        self._state = StateCollector(context.provider_tag)
        self._index: int | None = None
        """The index of the choice that is written."""
        self._next_index = 0
        """The number of blocks or items so far."""
        self._content_chars = 0
        self._buffered_chars = 0
        self._sources: list[Json] = []
        """Sources that wait for their text."""

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

    def _write_choice(self, choice: Json) -> None:
        delta = get_object(choice, "delta")
        self._state.add(delta)
        contents = read_contents(delta)
        self._add_text("reasoning", contents.reasoning)
        self._add_text("text", contents.text)
        if contents.sources:
            self._add_sources(contents.sources)
        for media in contents.media:
            self._add_media(media)
        self._add_text("refusal", contents.refusal)
        for call in contents.calls:
            if isinstance(call, dict):
                function = get_object(call, "function")
                arguments = read_arguments(function.get("arguments"))
                # Arguments count when they arrive: waiting arguments were made, too.
                self.text_bytes += count_text(arguments)
                name = get_text(function, "name")
                self._add_call(call["index"], get_text(call, "id"), name, arguments)
        if choice.get("finish_reason") is not None:  # later fragments are dropped
            check_finish(choice["finish_reason"])
            self._finish(choice)
            self.flush()

    def _add_text(self, kind: Kind, text: str) -> None:
        if text:
            self.text_bytes += count_text(text)
            self._write_text(kind, text)

    def _count_buffered(self, text: str) -> None:
        self._buffered_chars += len(text)
        if self._buffered_chars > MAX_BUFFERED_CHARS:
            raise UndeliverableReply("The upstream's reply is too large.")

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
        """Note the finished choice."""
