"""The vectors in a reply are found without reading them, and floats are packed exactly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.embeddings import (
    MAX_FRAME_BYTES,
    MAX_VECTOR_BYTES,
    Frame,
    maybe_find_vectors,
    pack_vectors,
)
from gateway.errors import UpstreamError
from tests.dialects.chat.kit import dump
from tests.support.embeddings import embeddings, round_trip, unpack
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.lists(st.lists(floats, max_size=5), min_size=1, max_size=5)


@each_row("packed", [False, True])
@each_row("indent", [None, 2])
def test_what_is_between_first_and_last_is_cut_out(indent: int | None, packed: bool) -> None:
    value = embeddings(packed=packed)
    text = json.dumps(value, indent=indent).encode()
    found = maybe_find_vectors(text)
    assert found is not None
    begin, end = found
    assert text[begin : begin + 1] + text[end - 1 : end] == (b'""' if packed else b"[]")
    frame = Frame(text[:begin], text[end:])
    stands = {"object": "embedding", "index": 0, "embedding": 0}
    assert json.loads(frame.text) == value | {"data": [stands]}


@each_row(
    "text",
    [
        b"",
        b"{}",
        b'{"object":"list","data":[]}',
        b'{"embedding":5}',
        b'{"embedding":[1,2',
        b'{"embedding":"abc',
        rb'{"a":"\"embedding\":[1]"}',
        b'{"embedding":[1],"a":["embedding","embedding","embedding","embedding"]}',
        b" " * MAX_FRAME_BYTES + b'{"embedding":[1]}',
        b'{"embedding":[1]' + b" " * (MAX_FRAME_BYTES + MAX_VECTOR_BYTES) + b'"embedding"',
    ],
)
def test_what_has_no_vectors(text: bytes) -> None:
    assert maybe_find_vectors(text) is None


def test_an_edit_before_or_behind_the_vectors_keeps_its_place() -> None:
    frame = Frame(b'{"model":"a","data":[', b'],"model":"b"}')
    assert frame.replace(b'{"model":"xyz","data":[0],"model":"b"}') == Frame(
        b'{"model":"xyz","data":[', b'],"model":"b"}'
    )
    assert frame.replace(b'{"model":"a","data":[0],"model":""}') == Frame(
        b'{"model":"a","data":[', b'],"model":""}'
    )


@fuzz(100)
@given(vectors)
def test_floats_become_base64_of_float32(wanted: list[list[float]]) -> None:
    text = dump(embeddings(wanted))
    begin, end = maybe_find_vectors(text) or (0, 0)
    told = json.loads(text[:begin] + pack_vectors(text[begin:end]) + text[end:])
    assert [unpack(one["embedding"]) for one in told["data"]] == [*map(round_trip, wanted)]
    assert [one["index"] for one in told["data"]] == list(range(len(wanted)))


@each_row(
    "text",
    [
        b"[1,null]",
        b'["a"]',
        b"[[1]]",
        b"[1e300]",
        b"[NaN]",
        b"[1,",
        b'[1],"embedding":"AAAA"',
        b"[" + b"1," * (MAX_VECTOR_BYTES // 2) + b"1]",
    ],
)
def test_what_are_no_numbers_is_an_upstreams_error(text: bytes) -> None:
    with pytest.raises(UpstreamError):
        pack_vectors(text)
