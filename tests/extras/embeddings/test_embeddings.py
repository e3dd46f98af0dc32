"""The vectors in a reply are found without reading them, and floats are packed exactly."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import BadRequest, UpstreamError
from gateway.base.money import Tokens
from gateway.base.prices import BillTerms
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import ReplyContext
from gateway.extras.embeddings.dialect import MAX_FRAME_BYTES, maybe_find_vectors, pack_vectors
from tests.dialects.chat.kit import dump
from tests.support.embeddings import embed, embeddings, round_trip, unpack
from tests.support.formats import SERVICES
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

MAX_VECTOR_BYTES, MAX_INPUTS = 1 << 20, 2048

EMBEDDINGS: Final = SERVICES["embeddings"]

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors = st.lists(st.lists(floats, max_size=5), min_size=1, max_size=5)


@fuzz(100)
@given(vectors)
def test_floats_become_base64_of_float32(wanted: list[list[float]]) -> None:
    text = dump(embeddings(wanted))
    begin, end = maybe_find_vectors(text) or (0, 0)
    told = json.loads(text[:begin] + pack_vectors(text[begin:end]) + text[end:])
    assert [unpack(one["embedding"]) for one in told["data"]] == [*map(round_trip, wanted)]
    assert [one["index"] for one in told["data"]] == list(range(len(wanted)))


CALLER = EMBEDDINGS.caller


@fuzz(200)
@given(json_values)
def test_any_input_is_counted_or_refused(value: object) -> None:
    try:
        request = CALLER.parse_request(dump({"model": "m", "input": value}))
    except BadRequest:
        return
    assert request.inputs is not None
    assert request.inputs.tokens >= request.inputs.count >= 1


def test_vectors_have_no_more_than_so_many_bytes() -> None:
    with pytest.raises(UpstreamError, match="too large"):
        pack_vectors(b"[" + b"1," * (MAX_VECTOR_BYTES // 2) + b"1]")


GUESSED = 5


def make_context(**fields: Any) -> ReplyContext:
    request = EMBEDDINGS.caller.parse_request(dump(embed("ours", **fields)))
    return ReplyContext(request, "req_1", Expected(GUESSED, UsageLimits(100, 0, 0)))


@each_row("packed", [False, True])
@each_row(
    "write",
    [dump, lambda value: json.dumps(value, indent=1).encode(), lambda value: dump(value) + b" \n"],
)
@each_row("model_first", [False, True])
def test_all_bytes_pass_but_the_model(packed: bool, write: Any, model_first: bool) -> None:
    value = embeddings(packed=packed, vendor={"x": [None]})
    if model_first:
        value = {"model": value["model"], **value}
    body = write(value)
    reply = EMBEDDINGS.read_reply(body, make_context(encoding_format="base64" if packed else None))
    assert reply.body == body.strip().replace(b"upstream-embed-2026", b"ours")
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(11), False)


@each_row("inner_first", [False, True])
def test_a_model_within_is_left_alone(inner_first: bool) -> None:
    vendor = {"vendor": {"model": "upstream-embed-2026"}}
    value = (vendor | embeddings()) if inner_first else (embeddings() | vendor)
    told = EMBEDDINGS.read_reply(dump(value), make_context()).body
    assert json.loads(told) == value | {"model": "ours"}


@each_row("usage", [None, 7, {"prompt_tokens": 11, "total_tokens": 11}])
@each_row("model", ["theirs", None, 7, {}])
@each_row("missing", ["", "model", "usage"])
def test_model_and_usage_are_ours_and_told_once(missing: str, model: object, usage: object) -> None:
    """Strict clients, such as those in Rust, refuse a reply with a member twice."""
    value = embeddings(model=model, usage=usage)
    value.pop(missing, None)
    body = EMBEDDINGS.read_reply(dump(value), make_context()).body
    names = [name for name, _ in json.loads(body, object_pairs_hook=list)]
    assert sorted(names) == sorted(set(names))
    tokens = 11 if isinstance(value.get("usage"), dict) else GUESSED
    told = {"prompt_tokens": tokens, "total_tokens": tokens}
    assert json.loads(body) == embeddings(model="ours", usage=told)


def test_the_service_tier_is_read() -> None:
    value = embeddings(service_tier="default")
    assert EMBEDDINGS.read_reply(dump(value), make_context()).metered.terms == BillTerms("standard")


def test_a_reply_that_is_no_vectors_but_for_its_frame_is_an_upstreams_error() -> None:
    large = {"vendor": "x" * MAX_FRAME_BYTES}
    with pytest.raises(UpstreamError, match="not a list of embeddings"):
        EMBEDDINGS.read_reply(dump(embeddings() | large), make_context())
    made = EMBEDDINGS.read_reply(dump(large | embeddings()), make_context())
    assert "not a list of embeddings" in str(made.failure)
    assert made.metered.tokens.input == 11, "a usage at the end is read"


@fuzz(300)
@given(st.data())
def test_a_reply_with_any_damage_is_read_or_an_upstreams_error(data: st.DataObject) -> None:
    """A delivered reply has our name of the model."""
    text = bytearray(dump(embeddings(packed=data.draw(st.booleans()))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        cut = data.draw(st.integers(0, 40))
        text[at : at + cut] = data.draw(
            st.sampled_from([b"", b'"', b"]", b"{", b"\\", b"\xff", b"1"])
        )
    try:
        reply = EMBEDDINGS.read_reply(bytes(text), make_context(encoding_format="base64"))
    except UpstreamError:
        return
    assert b'"ours"' in reply.body or reply.failure
