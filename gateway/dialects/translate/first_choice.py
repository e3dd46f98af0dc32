"""The first choice of a chat upstream's reply, the only one that translations read: its contents, in order.

Callers of other dialects know one open block or item at a time, while a chat upstream may mix the
fragments of several calls. So one call is open at a time, and its fragments go out as they come. It ends
when something else begins and its arguments are a whole JSON object, or when the reply ends. Until then,
later content is held back.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal

from gateway.base.errors import UndeliverableReply
from gateway.base.usage import count_text
from gateway.dialects.chat.content import list_media, read_content, read_reasoning
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish
from gateway.dialects.chat.writer import read_sources
from gateway.dialects.wire.halves import JsonMender, mend_json
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text, maybe_loads
from gateway.dialects.wire.pipelines import EventWriter
from gateway.dialects.wire.records import Json, ReplyContext

MAX_BUFFERED_CHARS: Final = 8 << 20
"""Characters buffered for one stream, such as text that its last event repeats, or arguments held back: as
many as the largest event has."""
MAX_JUDGEMENTS: Final = 8
"""How often the arguments of one call are parsed to see whether they are whole: if a provider mixes the
fragments of calls, they would be parsed with each. After that, the call ends with the reply."""

Kind = Literal["reasoning", "text", "refusal"]
_KINDS: Final[dict[str, Kind]] = {
    "content": "text", "reasoning_content": "reasoning", "reasoning": "reasoning",
    "refusal": "refusal",
}  # fmt: skip
"""The kinds of text by their keys in a delta."""


@dataclass(slots=True)
class Contents:
    """The contents of a message or a delta, in the order in which models make them."""

    reasoning: str
    text: str
    sources: list[Json]
    """The pages that the text is based on."""
    media: list[object]
    """Pictures and recordings."""
    refusal: str
    calls: list[object]


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


def read_call(call: object) -> tuple[str, str, str]:
    """Read id, name and arguments of a whole, repaired call. Raises UndeliverableReply without a name."""
    match call:
        case {"id": str(identity), "function": {"name": str(name)} as function} if name:
            return identity, name, mend_json(get_text(function, "arguments"))
        case _:
            raise unnamed_call()


def unnamed_call() -> UndeliverableReply:
    return UndeliverableReply("The upstream called a tool without naming it.")


@dataclass(slots=True)
class Call:
    """A call of the reply, as far as its fragments have come."""

    identity: str = ""
    name: str = ""
    fragments: list[str] = field(default_factory=list)
    """The fragments of its arguments."""
    mender: JsonMender = field(default_factory=JsonMender)
    written: int = 0
    """How many fragments were written."""
    is_open: bool = False
    """It was announced to the caller: its name is known, and no other call is open."""
    is_closed: bool = False
    judged: int = 0
    """The number of fragments when they were last parsed."""
    judgements: int = 0

    @property
    def arguments(self) -> str:
        return "".join(self.fragments)

    def judge_whole(self) -> bool:
        """Return whether the arguments are whole. Asked when other content begins."""
        is_known = self.judged == len(self.fragments) or self.judgements == MAX_JUDGEMENTS
        if not self.is_open or is_known or not self.fragments[-1].rstrip().endswith("}"):
            return False
        self.judged, self.judgements = len(self.fragments), self.judgements + 1
        return maybe_loads(self.arguments.encode()) is not None


@dataclass(slots=True)
class _Text:
    """A text that is held back."""

    kind: Kind
    fragments: list[str]


@dataclass(slots=True)
class _Media:
    """A picture or a recording that is held back."""

    content: object


class FirstChoiceWriter(EventWriter):
    """The part of an `EventWriter` that reads chunks: only the first choice, as callers ask for one."""

    __slots__ = (
        "_buffered_chars", "_call", "_calls", "_content_chars", "_context", "_index", "_next_index",
        "_sources", "_state", "_waiting",
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
        self._calls: dict[int, Call] = {}
        """All calls, by the upstream's index."""
        self._call: Call | None = None
        """The call that is written now."""
        self._waiting: deque[Call | _Text | _Media] = deque()
        """Content held back behind that call, in the order of its first fragments."""

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

    def maybe_extend(self, probed: Json, key: str) -> Callable[[str], None] | None:
        is_written = probed["choices"][0].get("index") == self._index
        return partial(self._add_text, _KINDS[key]) if is_written else None

    def _write_choice(self, choice: Json) -> None:
        delta = get_object(choice, "delta")
        self._state.add(delta)
        contents = read_contents(delta)
        self._add_text("reasoning", contents.reasoning)
        self._add_text("text", contents.text)
        if contents.sources:
            self._add_sources(contents.sources)
        for media in contents.media:
            if self._may_begin():
                self._write_media(media)
            else:
                self._waiting.append(_Media(media))
        self._add_text("refusal", contents.refusal)
        for call in contents.calls:
            if isinstance(call, dict):
                function = get_object(call, "function")
                arguments = get_text(function, "arguments")
                # Arguments count when they arrive, even if they are held back: the model made them.
                self.text_bytes += count_text(arguments)
                name = get_text(function, "name")
                self._add_call(call["index"], get_text(call, "id"), name, arguments)
        if choice.get("finish_reason") is not None:  # later fragments are dropped
            check_finish(choice["finish_reason"])
            self._finish(choice)
            self.flush()

    def flush(self) -> None:
        """Write everything that waits, and close what is open: no fragment is missing."""
        # Names are checked first, so that nothing is reported as complete before the stream fails.
        if not all(call.name for call in self._calls.values()):
            raise unnamed_call()
        while self._call is not None:
            self._end_call(self._call)
        self._close_last()

    def _add_text(self, kind: Kind, text: str) -> None:
        if not text:
            return
        self.text_bytes += count_text(text)
        last = self._waiting[-1] if self._waiting else None
        if isinstance(last, _Text) and last.kind == kind:
            self._count_buffered(text)
            last.fragments.append(text)
        elif self._may_begin():
            self._write_text(kind, text)
        else:
            self._count_buffered(text)
            self._waiting.append(_Text(kind, [text]))

    def _add_call(self, position: int, identity: str, name: str, arguments: str) -> None:
        """Add a fragment of a call; identity, name and arguments may each be empty."""
        call = self._calls.get(position)
        if call is None:
            call = self._calls[position] = Call()
            if self._may_begin():
                self._call = call
            else:
                self._waiting.append(call)
        call.identity = call.identity or identity
        call.name = call.name or name
        if call.is_closed:
            if arguments.strip():  # some upstreams send blanks after a call has ended
                raise UndeliverableReply("The upstream added to a tool call that was complete.")
            return
        if arguments := call.mender.feed(arguments):
            self._count_buffered(arguments)
            call.fragments.append(arguments)
        if call is self._call:
            self._advance(call)

    def _may_begin(self) -> bool:
        """End the open call if its arguments are whole; return whether none is open any more.

        Called only when other content begins: parsing the arguments with each fragment would take quadratic
        time.
        """
        while (call := self._call) is not None and call.judge_whole():
            self._end_call(call)
        return self._call is None

    def _end_call(self, call: Call) -> None:
        """Close the open call, and write the content held back behind it, up to the next open call."""
        if rest := call.mender.close():
            call.fragments.append(rest)
            self._advance(call)
        call.is_closed, self._call = True, None
        self._close_call(call)
        while self._waiting and self._call is None:
            match self._waiting.popleft():
                case Call() as following:
                    self._call = following
                    self._advance(following)
                case _Text(kind, fragments):
                    text = "".join(fragments)
                    self._buffered_chars -= len(text)  # counted again if it is kept
                    self._write_text(kind, text)
                case _Media(content):
                    self._write_media(content)

    def _advance(self, call: Call) -> None:
        """Announce the open call once its name is known, and write its new fragments."""
        if not call.is_open:
            if not call.name:
                return
            call.is_open = True
            self._open_call(call)
        if text := "".join(call.fragments[call.written :]):
            call.written = len(call.fragments)
            self._write_arguments(call, text)

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
    def _write_media(self, media: object) -> None:
        """Write a picture or a recording."""

    @abstractmethod
    def _open_call(self, call: Call) -> None:
        """Announce a call, whose name is known, and close what is open before it."""

    @abstractmethod
    def _write_arguments(self, call: Call, text: str) -> None:
        """Write the next arguments of the open call."""

    @abstractmethod
    def _close_call(self, call: Call) -> None:
        """Close the open call."""

    @abstractmethod
    def _close_last(self) -> None:
        """Close the text that is open, and write what comes at the end."""

    @abstractmethod
    def _finish(self, choice: Json) -> None:
        """Note the finished choice."""
