"""Reading a response: the same at every split point, strict where a mistake could mislead."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.upstream.http1 import BadResponse, ResponseReader
from tests.support.rows import each_row

MANY_BYTES: Final = 1 << 10

TOLD: Final = tomllib.loads(Path(__file__).with_name("responses.toml").read_text(encoding="utf-8"))
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def cut(wire: bytes) -> Iterator[tuple[bytes, ...]]:
    """Cut a response in two at any place, and what stands behind its head in any three reads."""
    for split in range(len(wire) + 1):
        yield wire[:split], wire[split:]
    head, blank, rest = wire.partition(b"\r\n\r\n")
    for first, second in combinations_with_replacement(range(len(rest) + 1), 2):
        yield head + blank, rest[:first], rest[first:second], rest[second:]


def read(reads: tuple[bytes, ...]) -> tuple[ResponseReader, bytes, str]:
    """Return the reader, the body and why the response was refused."""
    reader, body = ResponseReader(), b""
    try:
        for one in reads:
            body += reader.feed(one)
        if not reader.done:
            reader.feed_eof()
    except BadResponse as error:
        return reader, body + error.body, str(error)
    return reader, body, ""


@each_row("name", TOLD)
def test_a_response_reads_the_same_in_whatever_pieces_it_comes(name: str) -> None:
    told: dict[str, Any] = TOLD[name]
    for reads in cut(told["wire"].encode("latin-1")):
        reader, body, refused = read(reads)
        assert body == told["body"].encode("latin-1"), reads
        if why := told.get("refused"):
            assert why in refused, reads
            continue
        assert (refused, bool(reader.leftover)) == ("", told.get("leftover", False)), reads
        assert reader.head is not None
        assert reader.head.status == 200
        assert reader.head.is_persistent is told.get("persistent", True)
        for header, value in told.get("headers", {}).items():
            assert reader.head.get(header.encode()) == value


def open_chunked() -> ResponseReader:
    reader = ResponseReader()
    reader.feed(CHUNKED)
    return reader


def make_chunks(contents: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in contents)


@each_row(
    "odd",
    [b"an event\n\n", b"with a CRLF\r\n\r\n", b"5\r\nhello\r\n", b"\r\n", b"\r", b"\n", b"x" * MANY_BYTES],
)  # fmt: skip
def test_many_chunks_in_a_read_are_those_of_small_reads(odd: bytes) -> None:
    """Chunks are parsed at once or one by one, wherever the reads are cut."""
    contents = [b"data: %d\n\n" % number for number in range(99)]
    contents[7:7] = [odd]
    contents[60:60] = [odd, odd]
    chunks = make_chunks(contents) + b"0\r\n\r\n"
    for size in (7, 500, MANY_BYTES + 1, MANY_BYTES + 80, len(chunks) - 7, len(chunks)):
        reads = [chunks[at : at + size] for at in range(0, len(chunks), size)]
        reader = open_chunked()
        body = b"".join(map(reader.feed, reads))
        assert (body, reader.done, reader.leftover) == (b"".join(contents), True, b""), size


@each_row("size", [b"-8", b"+8", b" 8", b"0_8", b"", b"0" * 15 + b"8"])
def test_a_size_among_many_that_is_no_number_is_refused(size: bytes) -> None:
    many = make_chunks([b"contents"] * MANY_BYTES)
    with pytest.raises(BadResponse, match="number") as refused:
        open_chunked().feed(many + size + b"\r\ncontents\r\n" + many)
    assert refused.value.body == b"contents" * MANY_BYTES


@each_row("interim", [1, 10, 11, 1000])
def test_interim_responses_are_skipped_up_to_a_limit(interim: int) -> None:
    wire = b"HTTP/1.1 100 Continue\r\n\r\n" * interim + CHUNKED + b"1\r\n!\r\n0\r\n\r\n"
    _, body, refused = read((wire,))
    assert body == (b"!" if interim <= 10 else b"")
    assert ("interim" in refused) == (interim > 10)


AT_THE_LIMIT: Final[dict[str, Callable[[int], bytes]]] = {
    "bytes of a header": lambda beyond: b"HTTP/1.1 200 OK\r\nA: %s" % (b"x" * (8187 + beyond)),
    "bytes of a status line": lambda beyond: b"HTTP/1.1 200 " + b"x" * (8177 + beyond),
    "headers": lambda beyond: b"HTTP/1.1 200 OK" + b"\r\nA: b" * (128 + beyond),
}


@each_row("head", AT_THE_LIMIT.values())
def test_a_head_at_the_limit_is_read_and_one_beyond_refused(head: Callable[[int], bytes]) -> None:
    assert read((head(0) + b"\r\n\r\n",))[2] == ""
    assert read((head(1) + b"\r\n\r\n",))[2]


@each_row(
    ("head", "line", "count", "why"),
    [
        (CHUNKED, b"5;" + b"x" * ((16 << 10) - 2), 1, "too long"),
        (b"HTTP/1.1 200 OK\r\n", b"X: %b\r\n" % (b"a" * 1000), (64 << 10) // 1005, "head is malformed"),
        (CHUNKED + b"0\r\n", b"T: v\r\n", 128, "trailers"),
    ],
)  # fmt: skip
def test_what_has_no_end_is_refused(head: bytes, line: bytes, count: int, why: str) -> None:
    reader = ResponseReader()
    for data in (head, *[line] * count):
        reader.feed(data)
    with pytest.raises(BadResponse, match=why):
        reader.feed(line)


def test_a_long_run_of_spaces_costs_its_length() -> None:
    """A provider's odd header must not stall all other requests: the square of it took seconds."""

    def measure(spaces: int) -> float:
        line = b"X: a" + b" " * spaces + b"b\r\n"
        response = b"HTTP/1.1 200 OK\r\n" + line * 20 + b"Content-Length: 0\r\n\r\n"
        seconds = []
        for _ in range(5):
            begun = time.process_time()
            ResponseReader().feed(response)
            seconds.append(time.process_time() - begun)
        return min(seconds)

    assert measure(8000) < 30 * measure(1000) + 0.02
