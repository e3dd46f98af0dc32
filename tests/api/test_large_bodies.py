"""Large bodies: what counts as an element, and that one caller's body harms nobody else."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given

from gateway.api.large_bodies import (
    LARGE_BYTES,
    LARGE_ELEMENTS,
    MAX_ELEMENTS,
    check_elements,
    is_large,
)
from gateway.errors import BodyTooLarge
from tests.api.scene import check_nobody_waits, set_stage
from tests.support.chat import check_error, say
from tests.support.client import Reply, request
from tests.support.config import Kind
from tests.support.fuzz import fuzz, json_values
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply

KINDS = {"plain": Kind(("alpha",), 1)}


@pytest.mark.parametrize(
    "element",
    [
        b"0,",
        b"[],",
        b"{},",
        b"[",
        b'{"":',
        b"[[[[]]]],",
        b'"",',
        b'"a,b",',
        b'{"a":1},',
        rb'"\\",',
        rb'"\"",',
    ],
)
def test_a_body_of_tiny_elements_is_refused_before_it_is_parsed(element: bytes) -> None:
    body = b'{"a":[' + element * (MAX_ELEMENTS + 1) + b"0]}"
    assert is_large(body)
    with pytest.raises(BodyTooLarge):
        check_elements(body)


def test_commas_in_a_text_are_no_elements() -> None:
    """A table pasted into a message has more of them than any request has elements."""
    table = '1,2,3,4\n"quoted," ' * MAX_ELEMENTS
    check_elements(json.dumps({"content": table}).encode())
    check_elements(b'"' + b"," * 2 * MAX_ELEMENTS)


@fuzz(100)
@given(json_values)
def test_any_json_is_counted_to_its_end(value: object) -> None:
    check_elements(json.dumps(value).encode())


def test_what_is_large() -> None:
    assert not is_large(b"x" * LARGE_BYTES)
    assert is_large(b"x" * (LARGE_BYTES + 1))
    for mark in (b",", b"[", b"{"):
        assert not is_large(mark * LARGE_ELEMENTS)
        assert is_large(mark * (LARGE_ELEMENTS + 1))


async def test_heads_without_bodies_reserve_nothing() -> None:
    """Eight of them announced the whole budget, and everybody else was refused."""
    async with set_stage(kinds=KINDS, server="max_bodies_mb = 1") as stage:
        headers = {"Authorization": f"Bearer {stage.key}", "Content-Type": "application/json"}
        head = request("POST", CHAT, {**headers, "Content-Length": str(1 << 20)})
        stage.alpha.play(json_reply(completion()))
        calls = [await stage.gateway.connect().__aenter__() for _ in range(8)]
        for call in calls:
            await call.send(head)
        await asyncio.sleep(0.1)  # the heads are read; there is no event to see that by
        assert (await stage.chat(say("plain/0"))).status == 200
        for call in calls:
            await call.close()


async def test_a_body_of_tiny_elements_is_a_413_and_stops_nobody() -> None:
    """While it is looked at, others are answered."""
    async with set_stage(kinds=KINDS) as stage:
        tiny = b'{"model":"plain/0","messages":[' + b"0," * 250_000 + b"0]}"
        most = b'{"model":"plain/0","messages":[],"x":[' + b"[]," * 145_000 + b"0]}"

        async def ask_both() -> list[Reply]:
            asked = (stage.gateway.post(CHAT, stage.key, body) for body in (tiny, most))
            return await asyncio.gather(*asked)

        of_tiny, of_most = await check_nobody_waits(stage, ask_both)
        check_error(of_tiny, 400, "invalid_type")
        check_error(of_most, 400, "empty_array")
