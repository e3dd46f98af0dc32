"""Embeddings: passed on, charged, refused, and by OpenAI's own SDK."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.api.endings import EMBEDDED, Ending, late
from tests.api.in_flight import Happening, open_scene
from tests.api.scene import check_nobody_waits, set_stage
from tests.api.test_endings import check_log, check_row, follow
from tests.support.chat import Used, check_error
from tests.support.client import connect, request
from tests.support.config import EMBEDS, Kind, Places
from tests.support.embeddings import EMBEDDINGS, VECTORS, embed, embeddings, pack, round_trip
from tests.support.pairs import Clients
from tests.support.replies import dumps, error_reply, http, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until


async def post(stage: Stage, body: object, *, key: str | None = None) -> Any:
    return await stage.gateway.post(EMBEDDINGS, key or stage.key, body)


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(ending, id=name, marks=[pytest.mark.slow] if ending.waits else [])
        for name, ending in EMBEDDED.items()
    ],
)
async def test_an_ending_leaves_nothing_behind(stage: Stage, ending: Ending) -> None:
    """The rows of JSON replies, with vectors for a body."""
    model, seen = stage.fresh(f"embed-{ending.kind}"), asyncio.Event()
    stage.alpha.play(ending.write(seen))
    before = len(stage.alpha.exchanges)
    async with stage.gateway.chatting(stage.key, embed(model), EMBEDDINGS) as call:
        exchange = await stage.alpha.wait_for(before + 1)
        reply = await follow(call, ending, seen)
        if not ending.kept:
            await asyncio.wait_for(exchange.closed.wait(), 10)
    if ending.last == "reply":
        assert reply.json == embeddings(model=model)
    elif ending.last == "error":
        assert (reply.status, set(reply.json)) == (ending.status, {"error"})
    request_id = await check_row(stage.books, model, ending, exchange)
    await check_log(stage, request_id, ending)
    if ending.kept:
        stage.alpha.play(json_reply(embeddings()))
        assert (await post(stage, embed(model))).status == 200
        assert stage.alpha.last.connection == exchange.connection


@pytest.mark.parametrize("admitted", [False, True])
async def test_vectors_are_withheld_and_free_where_their_charge_is_not_committed(
    tmp_path: Path, places: Places, alpha: ScriptedUpstream, *, admitted: bool
) -> None:
    ending = Ending(late(json_reply(embeddings())), "ledger_error", 503, kept=True)
    async with (
        open_scene(Happening(), tmp_path, places, alpha) as scene,
        connect(scene.port) as call,
    ):
        alpha.play(ending.write(scene.go_on))
        if not admitted:
            await scene.break_ledger()
        headers = {"Content-Type": "application/json", "x-api-key": scene.key}
        await call.send(request("POST", EMBEDDINGS, headers, dumps(embed("embed/0"))))
        exchange = await alpha.wait_for(1)
        if admitted:
            await until(scene.count_pending, "the row")
            await scene.break_ledger()
        scene.go_on.set()
        await call.read_head()
        check_error(await call.read_all(), 503, "server_is_overloaded")
        await scene.mend_ledger()
        await check_row(scene.books, "embed/0", ending, exchange)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
async def test_megabytes_of_vectors_stop_nobody(packed: bool) -> None:
    """A reply of base64 passes; one of floats is packed here. Others are answered meanwhile."""
    vector = [value / 2**30 for value in range(2**29, 2**29 + 3072)]
    item = pack(vector) if packed else vector
    count = 2048 if packed else 550
    data = [{"object": "embedding", "index": n, "embedding": item} for n in range(count)]
    large = dumps({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 7}})
    option = "" if packed else "embeddings_base64 = false"
    kinds = {"plain": Kind(("alpha",), 1, option, makes=EMBEDS)}
    async with set_stage(kinds=kinds) as stage:
        stage.alpha.always([http(large)])
        body = embed("plain/0", encoding_format="base64")
        reply = await check_nobody_waits(stage, lambda: post(stage, body))
        assert (reply.status, reply.complete) == (200, True)
        told = json.loads(reply.body)
        assert (told["model"], len(told["data"])) == ("plain/0", count)
        assert {one["embedding"] for one in told["data"]} == {pack(vector)}
        assert await stage.charge_nano(reply) == Used(7, 0).cost_nano


@each_row("kind", ["embed", "embed-floats"])
async def test_a_caller_who_says_nothing_gets_floats(
    stage: Stage, clients: Clients, kind: str
) -> None:
    """The package asks for base64 then, whatever the provider can."""
    model = stage.fresh(kind)
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")))
    made = await clients.chat.embeddings.create(model=model, input=["one", "two"])
    sent = stage.alpha.last.json
    assert sent["encoding_format"] == ("base64" if kind == "embed" else "float")
    assert [tuple(one.embedding) for one in made.data] == [*map(round_trip, VECTORS)]
    assert [one.index for one in made.data] == [0, 1]
    assert (made.model, made.usage.prompt_tokens, made.usage.total_tokens) == (model, 11, 11)


async def test_errors_raise(stage: Stage, clients: Clients) -> None:
    model = stage.fresh("embed")
    stage.alpha.play(
        error_reply(400, "too long", code="x"), json_reply({"error": {"message": "no"}})
    )
    with pytest.raises(openai.BadRequestError, match="too long"):
        await clients.chat.embeddings.create(model=model, input="a")
    with pytest.raises(openai.InternalServerError, match="no"):
        await clients.chat.embeddings.create(model=model, input="a")
    with pytest.raises(openai.BadRequestError, match="is served at /v1/chat/completions"):
        await clients.chat.embeddings.create(model=stage.fresh("plain"), input="a")


@each_row("dimensions", [64, 256])
async def test_the_demo_embeds(clients: Clients, dimensions: int) -> None:
    asked = {} if dimensions == 64 else {"dimensions": dimensions}
    made = await clients.chat.embeddings.create(
        model="embed-demo/0", input=["Hello", "Hello", "Bye"], extra_body=asked
    )
    first, second, third = (one.embedding for one in made.data)
    assert first == second != third
    assert len(first) == dimensions
    assert math.isclose(math.hypot(*first), 1.0, rel_tol=1e-6)
    assert made.usage.prompt_tokens == 3
