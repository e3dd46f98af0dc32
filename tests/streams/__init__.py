"""The streams of providers, as bytes: one file for each behaviour; README.md has the format.

Complete ones are in CHAT, MESSAGES and RESPONSES, those that end in an error in FAILING and
RESPONSES_FAILING. Recorded streams
join the complete ones if GATEWAY_RECORDED_STREAMS names their folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.base.money import Tokens
from tests.support.formats import CALLERS
from tests.support.rows import Decorator, each_row

FOLDER: Final = Path(__file__).parent
RECORDED_VARIABLE: Final = "GATEWAY_RECORDED_STREAMS"
"""Names the folder of recorded streams; without it, there are none."""
DONE: Final = b"data: [DONE]\n\n"

_TOKEN_FIELDS: Final = ("input", "cached", "written", "output")


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream as its provider sends it."""

    name: str
    dialect: str
    body: bytes = field(repr=False)
    special: str = ""
    tokens: Tokens | None = None
    """The usage of a complete stream, worked out by hand; None for a recorded one."""
    repaired: tuple[int, int] | None = (0, 0)
    """How many events do not pass as they are, and how many go out in their place; None for a
    recorded stream. The terminal event does not count."""
    error: str | None = None
    """The message with which a failing stream ends."""

    @property
    def blocks(self) -> list[bytes]:
        """Events and comments, each with the blank line that ends it."""
        return re.findall(rb".+?\n\n", self.body, re.DOTALL)

    @property
    def payloads(self) -> list[bytes]:
        """The data of each event as it was written, `[DONE]` left out."""
        data = re.findall(rb"^data: ?(.*)$", self.body, re.MULTILINE)
        return [one for one in data if one.strip() != b"[DONE]"]

    @property
    def objects(self) -> list[Any]:
        """The data of each event, read."""
        return [json.loads(one) for one in self.payloads]


def read_stream(path: Path) -> Stream:
    """Read a file of the format in README.md."""
    header, _, body = path.read_bytes().partition(b"\n\n")
    fields = dict(line.split(": ", 1) for line in header.decode().splitlines())
    del fields["source"]
    tokens = _read_tokens(fields.pop("tokens")) if "tokens" in fields else None
    out, into = fields.pop("repaired", "0 into 0").split(" into ")
    repaired = int(out), int(into)
    dialect = path.relative_to(FOLDER).parts[0]
    return Stream(path.stem, dialect, body, tokens=tokens, repaired=repaired, **fields)


def _read_tokens(text: str) -> Tokens:
    counts = dict(part.split(" ") for part in text.split(", "))
    given, cached, written, made = (int(counts.pop(name, 0)) for name in _TOKEN_FIELDS)
    assert not counts, "they have other names"
    return Tokens(given, cached, written, made)


def _read_recorded(path: Path) -> Stream:
    """Frame a recording, which has the JSON of one event on each line."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    dialect = path.parent.name
    if dialect == "chat":
        body = b"".join(b"data: %b\n\n" % line for line in lines) + DONE
    else:
        named = ((json.loads(line)["type"].encode(), line) for line in lines)
        body = b"".join(b"event: %b\ndata: %b\n\n" % pair for pair in named)
    return Stream(f"recorded-{path.stem}", dialect, body, repaired=None)


def _list_recorded(dialect: str) -> list[Path]:
    named = os.environ.get(RECORDED_VARIABLE)
    if named is None:
        return []
    assert Path(named).is_dir(), f"{RECORDED_VARIABLE} names no folder: {named}"
    return sorted((Path(named) / dialect).glob("*.jsonl"))


def _load(dialect: str) -> Iterator[Stream]:
    if dialect not in CALLERS:
        return
    yield from map(read_stream, sorted((FOLDER / dialect).glob("*.sse")))
    yield from map(_read_recorded, _list_recorded(dialect))


CHAT: Final = tuple(_load("chat"))
MESSAGES: Final = tuple(_load("messages"))
RESPONSES: Final = tuple(_load("responses"))
RESPONSES_FAILING: Final = tuple(
    read_stream(path)
    for path in sorted(FOLDER.glob("responses/failing/*.sse"))
    if "responses" in CALLERS
)
FAILING: Final = tuple(
    read_stream(path)
    for dialect in ("chat", "messages")
    for path in sorted(FOLDER.glob(f"{dialect}/failing/*.sse"))
)
_WRITTEN: Final = [one for one in (*CHAT, *MESSAGES, *RESPONSES) if one.special]
_BY_NAME: Final = {one.name: one for one in _WRITTEN}
assert len(_BY_NAME) == len(_WRITTEN), "two files have the same name"


def get_stream(name: str) -> Stream:
    """A complete stream by the name of its file."""
    return _BY_NAME[name]


def drop_comments(body: bytes) -> bytes:
    """The events alone."""
    return re.sub(rb"^:.*\n\n", b"", body, flags=re.MULTILINE)


def each(*streams: Stream) -> Decorator:
    """Play a test for each stream, which it takes as `stream`."""
    return each_row("stream", streams)
