"""Large bodies: what counts as an element, and that one caller's body harms nobody else."""

from __future__ import annotations

import asyncio
import json
import threading
import time

import pytest
from hypothesis import given

from gateway.api.admission import parse_large
from gateway.api.bodies import (
    LOOP_BYTES,
    LOOP_MS,
    REST_SECONDS,
    SHORT_MS,
    LargeBodies,
    Place,
    choose_place,
)
from gateway.dialects.exchanges import CALLERS
from gateway.dialects.wire.jsonbytes import MAX_ELEMENTS, count_elements
from gateway.errors import BadRequest, BodyTooLarge
from tests.api.scene import check_nobody_waits, set_stage
from tests.support.chat import check_error, say
from tests.support.client import Reply, request
from tests.support.config import Kind
from tests.support.fuzz import fuzz, json_values
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row

KINDS = {"plain": Kind(("alpha",), 1)}


@each_row(
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
    assert choose_place(body, 10_000) is Place.THREAD
    with pytest.raises(BodyTooLarge):
        parse_large(CALLERS["chat"], body)


def test_commas_in_a_text_are_no_elements() -> None:
    """A table pasted into a message has more of them than any request has elements."""
    table = '1,2,3,4\n"quoted," ' * MAX_ELEMENTS
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": table}]}).encode()
    assert parse_large(CALLERS["chat"], body).elements == 12
    with pytest.raises(BadRequest):
        parse_large(CALLERS["chat"], b'"' + b"," * 2 * MAX_ELEMENTS)


@fuzz(100)
@given(json_values)
def test_any_json_is_counted_to_its_end(value: object) -> None:
    count_elements(json.dumps(value).encode(), MAX_ELEMENTS)


@each_row("mark", [b",", b"[", b"{"])
def test_the_place_depends_on_the_values_and_how_long_each_takes(mark: bytes) -> None:
    rate = 600
    assert choose_place(b"x" * LOOP_BYTES, rate) is Place.NOW
    assert choose_place(b"x" * (LOOP_BYTES + 1), rate) is Place.THREAD
    short, longest = (int(ms * rate / 3) - 1 for ms in (SHORT_MS, LOOP_MS))  # up to 3 for a mark
    assert choose_place(mark * short, rate) is Place.NOW
    assert choose_place(mark * (short + 1), rate) is Place.TURN
    assert choose_place(mark * longest, rate) is Place.TURN
    assert choose_place(mark * (longest + 1), rate) is Place.THREAD
    assert choose_place(mark * (longest + 1), 7 * rate) is Place.NOW


async def test_the_thread_serves_owners_in_turn() -> None:
    """Fifty bodies of one account make another wait for one of them."""
    bodies, order, release = LargeBodies(), list[str](), threading.Event()

    async def ask(name: str, owner: int) -> None:
        order.append(
            await bodies.run(lambda: name if release.wait(30) else "", Place.THREAD, owner)
        )

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(ask(f"busy {number}", 1))
        await asyncio.sleep(0)
        group.create_task(ask("other", 2))
        gone = group.create_task(ask("gone", 3))
        await asyncio.sleep(0)
        gone.cancel()
        release.set()
    assert order.index("other") <= 2
    assert sorted(order) == ["busy 0", "busy 1", "busy 2", "busy 3", "busy 4", "other"]
    bodies.close()


async def test_the_thread_rests_for_as_long_as_a_job_took() -> None:
    """The loop waits for one call of orjson at a time, not for one after another."""
    bodies, seconds = LargeBodies(), REST_SECONDS / 2

    def work() -> float:
        time.sleep(seconds)
        return time.monotonic()

    first, second = await asyncio.gather(*(bodies.run(work, Place.THREAD) for _ in range(2)))
    assert second - first > 1.9 * seconds
    bodies.close()


async def test_what_a_function_raises_is_raised_wherever_it_runs() -> None:
    bodies = LargeBodies()
    for place in Place:
        with pytest.raises(ValueError, match="no number"):
            await bodies.run(lambda: int("no number"), place)
        assert await bodies.run(lambda: 7, place) == 7
    bodies.close()


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

        of_tiny, of_most = await check_nobody_waits(stage, ask_both, least=2)
        check_error(of_tiny, 400, "invalid_type")
        check_error(of_most, 400, "empty_array")
