"""Reading a response: the same at every split point, strict where a mistake could mislead."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from gateway.upstream.http1 import (
    MANY_BYTES,
    MAX_HEAD_BYTES,
    MAX_INTERIM,
    BadResponse,
    ResponseReader,
)
from tests.support.rows import each_row

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: v\r\n\r\n"
LENGTH = (
    b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\nX: \t a b \r\n\r\nhello!"
)


@each_row("wire", [CHUNKED, LENGTH])
def test_a_response_reads_the_same_at_every_split_point(wire: bytes) -> None:
    for split in range(len(wire) + 1):
        reader = ResponseReader()
        body = reader.feed(wire[:split]) + reader.feed(wire[split:])
        assert (body, reader.done, reader.leftover) == (b"hello!", True, False), split
        assert reader.head is not None
        assert reader.head.status == 200


def test_chunks_read_the_same_in_any_three_reads() -> None:
    """A read that is one whole chunk takes a shorter way: it must be just that."""
    head, chunks = CHUNKED[: CHUNKED.index(b"5\r\n")], b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"
    for first in range(len(chunks) + 1):
        for second in range(first, len(chunks) + 1):
            reader = ResponseReader()
            reader.feed(head)
            reads = (chunks[:first], chunks[first:second], chunks[second:])
            body = b"".join(reader.feed(read) for read in reads)
            assert (body, reader.done, reader.leftover) == (b"hello!", True, False), reads


def make_chunks(contents: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in contents)


@each_row(
    "odd",
    [
        b"an event\n\n",
        b"with a CRLF\r\n\r\n",
        b"5\r\nhello\r\n",
        b"\r\n",
        b"\r",
        b"\n",
        b"x" * MANY_BYTES,
    ],
)
def test_many_chunks_in_a_read_are_those_of_small_reads(odd: bytes) -> None:
    """Chunks are parsed at once or one by one, wherever the reads are cut."""
    contents = [b"data: %d\n\n" % number for number in range(99)]
    contents[7:7] = [odd]
    contents[60:60] = [odd, odd]
    head, chunks = CHUNKED[: CHUNKED.index(b"5\r\n")], make_chunks(contents) + b"0\r\n\r\n"
    for size in (7, 500, MANY_BYTES + 1, MANY_BYTES + 80, len(chunks)):
        reader = ResponseReader()
        reader.feed(head)
        reads = [chunks[at : at + size] for at in range(0, len(chunks), size)]
        body = b"".join(map(reader.feed, reads))
        assert (body, reader.done, reader.leftover) == (b"".join(contents), True, False), size


@each_row("size", [b"-8", b"+8", b" 8", b"0_8", b"", b"0" * 15 + b"8"])
def test_a_size_among_many_that_is_no_number_is_refused(size: bytes) -> None:
    reader = ResponseReader()
    reader.feed(CHUNKED[: CHUNKED.index(b"5\r\n")])
    many = make_chunks([b"contents"] * MANY_BYTES)
    with pytest.raises(BadResponse, match="number") as refused:
        reader.feed(many + size + b"\r\ncontents\r\n" + many)
    assert refused.value.body == b"contents" * MANY_BYTES


def test_many_chunks_may_end_before_their_last_crlf() -> None:
    """A part of a chunk is not taken for a whole one."""
    contents = [b"contents"] * MANY_BYTES
    chunks = make_chunks(contents)
    reader = ResponseReader()
    reader.feed(CHUNKED[: CHUNKED.index(b"5\r\n")])
    body = reader.feed(chunks[:-2]) + reader.feed(b"\r\n0\r\n\r\n")
    assert (body, reader.done, reader.leftover) == (b"".join(contents), True, False)


def test_data_that_looks_like_a_chunk_is_data() -> None:
    """Only between chunks may a read be taken for one."""
    inside = b"5\r\nhello\r\n"
    for reads in (
        (b"a\r\n", inside, b"\r\n"),
        (b"d\r\n5\r\nhe", b"3\r\nllo\r\n", b"\r\n"),
        (b"1", inside, b"x" * 14 + b"\r\n"),
    ):
        reader = ResponseReader()
        reader.feed(CHUNKED[: CHUNKED.index(b"5\r\n")])
        body = b"".join(reader.feed(read) for read in reads)
        assert body == b"".join(reads).partition(b"\r\n")[2][:-2], reads
    reader = ResponseReader()
    reader.feed(CHUNKED[: CHUNKED.index(b"5\r\n")] + b"0\r\n")
    with pytest.raises(BadResponse, match="trailers"):
        reader.feed(inside)


@each_row("data", [b"5\r\nhello\n\n", b"5\r\nhello!\n", b"5\r\nhellox\r\n"])
def test_a_chunk_that_is_not_as_long_as_it_said_is_refused(data: bytes) -> None:
    reader = ResponseReader()
    reader.feed(CHUNKED[: CHUNKED.index(b"5\r\n")])
    with pytest.raises(BadResponse, match="longer"):
        reader.feed(data)


@each_row("interim", [1, 10, 11, 1000])
def test_interim_responses_are_skipped_up_to_a_limit(interim: int) -> None:
    reader = ResponseReader()
    wire = b"HTTP/1.1 100 Continue\r\n\r\n" * interim + CHUNKED
    if interim > MAX_INTERIM:
        with pytest.raises(BadResponse, match="interim"):
            reader.feed(wire)
    else:
        assert reader.feed(wire) == b"hello!"


AT_THE_LIMIT: dict[str, Callable[[int], bytes]] = {
    "bytes of a header": lambda beyond: b"HTTP/1.1 200 OK\r\nA: %s" % (b"x" * (8187 + beyond)),
    "bytes of a status line": lambda beyond: b"HTTP/1.1 200 " + b"x" * (8177 + beyond),
    "headers": lambda beyond: b"HTTP/1.1 200 OK" + b"\r\nA: b" * (128 + beyond),
}


@each_row("head", AT_THE_LIMIT.values())
def test_a_head_at_the_limit_is_read_and_one_beyond_refused(head: Callable[[int], bytes]) -> None:
    reader = ResponseReader()
    reader.feed(head(0) + b"\r\n\r\n")
    assert reader.head is not None
    with pytest.raises(BadResponse):
        ResponseReader().feed(head(1) + b"\r\n\r\n")


def test_a_chunk_size_line_without_end_is_cut() -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader.feed(b"5;" + b"x" * ((16 << 10) - 2))
    with pytest.raises(BadResponse, match="too long"):
        reader.feed(b"x")


def test_a_head_without_end_is_refused() -> None:
    reader, line = ResponseReader(), b"X: " + b"a" * 1000 + b"\r\n"
    reader.feed(b"HTTP/1.1 200 OK\r\n")
    for _ in range(MAX_HEAD_BYTES // len(line)):
        reader.feed(line)
    with pytest.raises(BadResponse, match="head is malformed"):
        reader.feed(line)


def test_the_lines_of_a_repeated_header_are_one_list() -> None:
    reader = ResponseReader()
    reader.feed(
        b"HTTP/1.1 200 OK\r\nConnection: upgrade\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    assert reader.head is not None
    assert reader.head.get(b"connection") == "upgrade, close"
    assert not reader.head.is_persistent


def test_a_header_is_stripped() -> None:
    reader = ResponseReader()
    reader.feed(LENGTH)
    assert reader.head is not None
    assert reader.head.get(b"x") == "a b"


def test_names_are_read_in_any_case_and_folded_lines_not_at_all() -> None:
    reader = ResponseReader()
    head = (
        b"HTTP/1.0 200 OK\nCONTENT-length :2\nX: a\r\n\tContent-Length: 9\r\nConnection: Keep-Alive"
    )
    assert reader.feed(head + b"\r\n\r\nhi") == b"hi"
    assert reader.done
    assert reader.head is not None
    assert reader.head.is_persistent
    assert (reader.head.get(b"x"), reader.head.get(b"content-length")) == ("a", "2")


@each_row(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n folded: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\x16\x03\x01 tls",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: v\r\n" * 200,
    ],
)
def test_what_could_mislead_is_refused(head: bytes) -> None:
    with pytest.raises(BadResponse):
        ResponseReader().feed(head)


def test_what_stands_before_a_mistake_is_the_body_at_every_split_point() -> None:
    wire = CHUNKED.partition(b"1;x=y")[0] + b"zz\r\n"
    for split in range(len(wire) + 1):
        reader = ResponseReader()
        pieces: list[bytes] = []
        with pytest.raises(BadResponse) as refusal:
            pieces.extend(reader.feed(piece) for piece in (wire[:split], wire[split:]))
        assert b"".join([*pieces, refusal.value.body]) == b"hello", split


def test_what_is_missing_at_the_end_is_told() -> None:
    reader = ResponseReader()
    reader.feed(LENGTH[:-1])
    with pytest.raises(BadResponse):
        reader.feed_eof()


def test_bytes_behind_a_response_are_noticed() -> None:
    reader = ResponseReader()
    reader.feed(LENGTH + b"HTTP/1.1 200 OK\r\n\r\n")
    assert reader.leftover


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
