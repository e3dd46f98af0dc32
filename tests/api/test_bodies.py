"""Bodies: within their limits, counted in memory, parsed where it delays nobody."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given

from gateway.api.bodies import is_large, parse, parse_large
from gateway.api.routes import list_endpoints
from gateway.base.errors import BadRequest, BodyTooLarge
from gateway.base.turns import TURN_SECONDS, LargeBodies
from gateway.dialects.wire.bounds import (
    MAX_ELEMENTS,
    MAX_ESCAPES,
    MAX_WIDE_BYTES,
    bound_elements,
    count_elements,
)
from tests.api.scene import set_stage
from tests.api.test_shares import make_call
from tests.support.chat import check_error, check_messages_error, say
from tests.support.client import Reply, request, send_before_reading
from tests.support.config import MAX_BODY_MB, Kind
from tests.support.formats import CALLERS
from tests.support.fuzz import fuzz, json_values
from tests.support.messages import ask
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import LAST_CHUNK, chunked, completion, json_reply
from tests.support.rows import each_row, told_together
from tests.support.seed import Seed
from tests.support.stage import Stage

LOOP_BYTES, LOOP_VALUES, REST_SECONDS = 1 << 19, 3_000, 0.05

MODEL = "plain/0"
TRANSCRIPTS = "/v1/audio/transcriptions"
GOOD = json.dumps(say(MODEL)).encode()
JSON_TYPE = {"Content-Type": "application/json"}


async def test_too_large_is_refused_when_it_is_not_declared(stage: Stage) -> None:
    """Refused one byte beyond the limit, in chunks."""
    size = MAX_BODY_MB * 2**20 + 1
    head = request("POST", CHAT, JSON_TYPE | {
        "Authorization": f"Bearer {stage.key}", "Transfer-Encoding": "chunked"
    })  # fmt: skip
    async with stage.gateway.connect() as call:
        await call.send(head + b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n")
        check_error(await call.read_all(), 413, "request_too_large")


async def test_chunks_without_content_are_an_empty_body(stage: Stage) -> None:
    """As curl and others send a body that turns out to be empty: the last chunk alone, with the head."""
    head = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Transfer-Encoding": "chunked"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, head) + LAST_CHUNK)
        check_error(await call.read_all(), 400, None)


async def test_each_content_encoding_of_a_request_counts(stage: Stage) -> None:
    told = {"Content-Encoding": "identity\r\nContent-Encoding: gzip", "Content-Length": "2"}
    head = JSON_TYPE | {"Authorization": f"Bearer {stage.key}"} | told
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, head) + b"{}")
        check_error(await call.read_all(), 415, "unsupported_media_type")


REFUSED: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("rich", 413, {}),  # of a form the type is refused first
    ("rich", 413, {"Transfer-Encoding": "chunked"}),
    ("rich", 415, {"Content-Encoding": "gzip"}),
    ("rich", 404, {}),
    ("rich", 405, {}),
    ("nobody", 401, {}),
    ("empty", 402, {}),
    ("busy", 429, {}),
)
"""A caller, the status of its refusal, and what its head has for that."""


async def test_a_refusal_arrives_at_a_client_that_sends_its_body_first() -> None:
    """For JSON and for forms, by each kind of refusal; the body is larger than all buffers on its way."""
    seeds = (Seed("rich"), Seed("empty", 0), Seed("busy", requests_per_minute=1))
    served = {one.path for one in list_endpoints()}
    size = 12 << 20
    async with set_stage(kinds=KINDS, seeds=seeds) as stage:
        keys = {name: one.key for name, one in stage.callers.items()} | {"nobody": "sk-ru-nobody"}
        with told_together() as row:
            for path, (name, status, told) in itertools.product(
                {CHAT, TRANSCRIPTS} & served, REFUSED
            ):
                target = path + "/not/here" * (status == 404)
                method = "PUT" if status == 405 else "POST"
                head = JSON_TYPE | {"Authorization": f"Bearer {keys[name]}"} | told
                if "Transfer-Encoding" in told:
                    chunk, end = b"%x\r\n" % size, b"\r\n0\r\n\r\n"
                else:
                    chunk, end = b"", b""
                    head["Content-Length"] = str(size)
                if name == "busy":  # each time, as there is room for one again after a minute
                    await stage.chat(b"{}", key=keys[name])
                sent = (request(method, target, head) + chunk, bytes(size), end)
                with row(f"{method} {target} {name} {told}"):
                    came = await asyncio.to_thread(send_before_reading, stage.gateway.port, *sent)
                    is_form = path == TRANSCRIPTS and status == 413
                    assert came.startswith(b"HTTP/1.1 %d " % (415 if is_form else status)), came


BAD_CHUNKS = {
    "no size": b"zz\r\n",
    "a negative size": b"-5\r\n",
    "no line end behind a chunk": b"5\r\nhelloworld",
    "a size beyond all": b"f" * 40 + b"\r\n",
}


async def send_bad_chunk(stage: Stage, path: str, bad: bytes, *, closes: bool) -> Reply:
    """Send a body whose second chunk is bad; return the reply, and check that nothing is behind it."""
    headers = JSON_TYPE | {"x-api-key": stage.key, "Transfer-Encoding": "chunked"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", path, headers) + chunked(GOOD[:20]))
        await asyncio.sleep(0.1)  # so that the body has begun; nothing tells
        await call.send(bad)
        reply = await call.read_all()
        if closes:
            assert await call.read_to_close() == b""
    return reply


@pytest.mark.parametrize("closes", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_chunks_framed_wrongly_are_a_400_at_once(stage: Stage, *, closes: bool) -> None:
    """A connection lingers for 2 s behind it."""
    cases = list(itertools.product((CHAT, MESSAGES), BAD_CHUNKS.values()))
    for reply in await asyncio.gather(
        *(send_bad_chunk(stage, *case, closes=closes) for case in cases)
    ):
        if "request_id" in reply.json:
            check_messages_error(reply, 400, "invalid_request_error")
        else:
            check_error(reply, 400, None)
        await stage.check_log(reply)
    assert stage.alpha.connections == 0


async def test_largest_body_passes(stage: Stage) -> None:
    body = json.dumps(say(stage.fresh("plain"))).encode()
    stage.alpha.play(json_reply(completion()))
    padded = body + b" " * (MAX_BODY_MB * 2**20 - len(body))
    assert (await stage.chat(padded)).status == 200


MESSAGE = json.dumps(ask("messages/0")).encode()
NESTED = b'{"metadata":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b',"'
MANY = b'{"metadata":[' + b"0," * MAX_ELEMENTS + b'0],"'


@each_row(
    ("path", "body", "status"),
    [
        (CHAT, GOOD[:-1] + b', "max_tokens": ' + b"1" * 5000 + b"}", 400),
        (CHAT, GOOD[:-1] + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (CHAT, GOOD[:-1] + b', "x": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, 400),
        (CHAT, json.dumps(say("m" * 10_000)).encode(), 400),
        (MESSAGES, MESSAGE.replace(b'{"', NESTED, 1), 400),
        (MESSAGES, MESSAGE.replace(b'{"', MANY, 1), 413),
        (MESSAGES, b" " * (1 << 20) + b"{}", 413),
    ],
)
async def test_giant_bodies_are_refused_and_not_repeated(
    stage: Stage, path: str, body: bytes, status: int
) -> None:
    reply = await stage.gateway.post(path, stage.key, body)
    assert (reply.status, len(reply.body) < 1000) == (status, True), reply.body
    assert stage.books.request(reply.request_id) is None
    assert stage.alpha.connections == 0
    await stage.check_log(reply)
    reply = await stage.gateway.post(path, "sk-ru-nobody", body)
    assert reply.status == 401, "before the size"


MIB = 2**20


KINDS = {"plain": Kind(("alpha",), 1)}


@each_row(
    "element",
    [
        b"0,", b"[],", b"{},", b"[", b'{"":', b"[[[[]]]],", b'"",', b'"a,b",', b'{"a":1},',
        rb'"\\",', rb'"\"",',
    ],
)  # fmt: skip
def test_a_body_of_tiny_elements_is_refused_before_it_is_parsed(element: bytes) -> None:
    body = b'{"a":[' + element * (MAX_ELEMENTS + 1) + b"0]}"
    assert is_large(len(body), partial(bound_elements, body))
    with pytest.raises(BodyTooLarge):
        parse_large(CALLERS["chat"], body)


@each_row("escape", [rb"\"", rb"\u4e2d", rb"\\"])
def test_a_body_of_escapes_is_refused_before_it_is_parsed(escape: bytes) -> None:
    """orjson takes tens of ms for them, and no other thread runs meanwhile."""
    escapes = MAX_ESCAPES // escape.count(b"\\")
    head, tail = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
    assert parse_large(CALLERS["chat"], head + escape * escapes + tail).elements < 20
    with pytest.raises(BodyTooLarge, match="2,000,000 backslashes"):
        parse_large(CALLERS["chat"], head + escape * (escapes + 1))


def test_a_body_of_wide_text_is_refused_before_it_is_parsed() -> None:
    """Files in Base64 are as large as they will."""
    head, tail = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
    wide = "语".encode() * (MAX_WIDE_BYTES // 3 - 50_000)
    assert parse_large(CALLERS["chat"], head + b"QUJD" * (5 << 20) + wide + tail).elements == 12
    with pytest.raises(BodyTooLarge, match="8 MiB of text that is not ASCII"):
        parse_large(CALLERS["chat"], head + wide + "语".encode() * 50_000 + tail)


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
def test_the_place_depends_on_bytes_and_values(mark: bytes) -> None:
    most = LOOP_VALUES // 3  # up to 3 values for a mark
    for body, large in (
        (b"x" * LOOP_BYTES, False),
        (b"x" * (LOOP_BYTES + 1), True),
        (mark * (most - 1) + b" " * LOOP_VALUES, False),
        (mark * most + b" " * LOOP_VALUES, True),
    ):
        assert is_large(len(body), partial(bound_elements, body)) is large
        assert is_large(len(body)) is (len(body) > LOOP_BYTES), (
            "values of what is not parsed do not count"
        )


async def test_bodies_that_came_together_are_parsed_in_turn() -> None:
    """Short ones are all parsed at once: waiting would take longer."""
    parsed, call = list[bytes](), make_call(cast("Any", None), 1)

    def parse_request(body: bytes) -> SimpleNamespace:
        time.sleep(TURN_SECONDS)
        parsed.append(body)
        return SimpleNamespace()

    caller = cast("Any", SimpleNamespace(parse_request=parse_request))
    for size, at_once in ((LOOP_VALUES, 5), (LOOP_VALUES + 1, 1)):
        parsed.clear()
        waiting = asyncio.gather(*(parse(call, caller, b"x" * size) for _ in range(5)))
        await asyncio.sleep(0)
        assert len(parsed) == at_once
        await waiting


async def test_the_thread_serves_owners_in_turn() -> None:
    """Fifty bodies of one account make another wait for one of them."""
    bodies, order, release = LargeBodies(), list[str](), threading.Event()

    async def ask(name: str, owner: int) -> None:
        order.append(await bodies.run(lambda: name if release.wait(30) else "", owner))

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

    first, second = await asyncio.gather(*(bodies.run(work) for _ in range(2)))
    assert second - first > 1.9 * seconds
    bodies.close()


async def test_what_a_function_raises_is_raised_for_whoever_waits() -> None:
    bodies = LargeBodies()
    with pytest.raises(ValueError, match="no number"):
        await bodies.run(lambda: int("no number"))
    assert await bodies.run(lambda: 7) == 7
    bodies.close()


async def test_a_machine_that_had_no_thread_may_have_one_later() -> None:
    bodies, ran = LargeBodies(), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no new thread")))
        with pytest.raises(RuntimeError, match="no new thread"):
            await bodies.run(lambda: ran.append(1))
    await asyncio.wait_for(bodies.run(lambda: ran.append(2)), 30)
    assert ran == [2]  # what failed is not kept
    bodies.close()
