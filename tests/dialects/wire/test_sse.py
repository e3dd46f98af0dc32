"""Events of streams, byte by byte; errors of upstreams with any body. `faults.txt` has the known ones."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import GatewayError, UpstreamError, UpstreamUnavailable
from gateway.dialects.wire.failures import make_failure, map_status
from gateway.dialects.wire.sse import Carry, find_event_end, is_canonical, parse_event, render_event
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

SHORT_BYTES = 64

ENDS = (b"\n", b"\r", b"\r\n")


def split_events(pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    """Return the whole events of a stream fed in pieces, and the rest."""
    carry = Carry()
    found = []
    for piece in pieces:
        buffer = carry.join(piece)
        if buffer is None:
            continue
        start = 0
        while (end := find_event_end(buffer, start)) >= 0:
            found.append(buffer[start:end])
            start = end
        carry.keep(buffer[start:])
    return found, carry.take()


@each_row("end", ENDS)
def test_events_are_the_same_at_every_split_point(end: bytes) -> None:
    blocks = [b"data: a" + end * 2, b": c" + end + b"event: x" + end + b"data:b" + end * 2]
    stream = b"".join(blocks) + b"data: rest"
    for cut in range(len(stream) + 1):
        assert split_events([stream[:cut], stream[cut:]]) == (blocks, b"data: rest"), cut
    assert split_events([stream[at : at + 1] for at in range(len(stream))]) == (
        blocks,
        b"data: rest",
    )


@fuzz(200)
@given(st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x", b":", b" "]), max_size=30))
def test_boundaries_are_those_of_a_reading_by_lines(parts: list[bytes]) -> None:
    """The reference reads by lines; the end is left out, where a CR is still open."""
    stream = b"".join(parts) + b"|"
    found, rest = split_events([stream])
    assert b"".join(found) + rest == stream
    lines = re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)", stream)
    expected, block = [], b""
    for before, line in zip([b"", *lines], lines, strict=False):
        block += line
        if not line.strip(b"\r\n") and before and block != line:
            expected.append(block)
            block = b""
    assert b"".join(found) == b"".join(expected)
    assert [one for one in found if one.strip()] == [one for one in expected if one.strip()]


def test_carry_counts_what_it_holds() -> None:
    long = b"a" * SHORT_BYTES
    carry = Carry()
    carry.keep(long)
    assert (carry.size, carry.join(b"b\n")) == (SHORT_BYTES, None)
    assert (carry.size, carry.join(b"\n")) == (SHORT_BYTES + 2, long + b"b\n\n")
    assert carry.size == 0
    carry.keep(b"")
    assert (carry.size, carry.take()) == (0, b"")


def test_carry_joins_after_a_carriage_return_that_may_have_ended_a_line() -> None:
    carry = Carry()
    carry.keep(b"data: a\r\r")
    assert carry.join(b"d") == b"data: a\r\rd"


@each_row("piece", [b"x" * 64, b"data: %s\n" % (b"x" * 57)])
def test_a_long_event_in_small_pieces_costs_its_length_once(piece: bytes) -> None:
    """Twice the pieces take about twice the time, not four times."""

    def measure(pieces: int) -> float:
        carry = Carry()
        carry.keep(b"data: " + piece)
        begun = time.process_time()
        for _ in range(pieces):
            assert carry.join(piece) is None
        return time.process_time() - begun

    measure(1000)
    assert measure(64_000) < 24 * measure(8_000) + 0.01


def test_an_event_is_written_with_its_name() -> None:
    block = render_event({"type": "a.b", "x": "ü\ud800"})
    assert block == b'event: a.b\ndata: {"type":"a.b","x":"\\u00fc\\ud800"}\n\n'
    assert is_canonical(block, parse_event(block), "a.b")


def envelope(message: str = "said upstream", **fields: Any) -> bytes:
    return json.dumps({"error": {"message": message, **fields}}).encode()


@fuzz(150)
@given(
    st.integers(100, 999),
    st.binary(max_size=40) | st.builds(lambda v: json.dumps(v).encode(), json_values),
)
def test_no_body_breaks_the_mapping(status: int, body: bytes) -> None:
    error = map_status(status, body, None)
    assert isinstance(error, GatewayError)
    assert (error.status == 400) == (status in {400, 413, 422})
    assert 0 < len(error.message) <= 1000


@each_row(
    ("code", "kind", "told"),
    [
        ("rate_limit_exceeded", UpstreamUnavailable, "rate_limit_exceeded"),
        ("server_error", UpstreamError, "server_error"),
        ("insufficient_quota", UpstreamUnavailable, None),
        ("Bearer sk-1 is no key", UpstreamError, None),
        (None, UpstreamError, None),
    ],
)
def test_a_failure_within_a_reply_has_the_providers_word(
    code: str | None, kind: type[UpstreamError], told: str | None
) -> None:
    """But neither a text nor how our account there stands."""
    body = {"error": {"message": "m", "code": code}}
    failure = make_failure(body)
    assert (type(failure), failure.provider_code) == (kind, told)
    assert (failure.message == "m") == (code != "insufficient_quota")
    assert failure.code == kind.chat_code
