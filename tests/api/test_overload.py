"""Limits in force: rates, concurrency, what is in flight, slow bodies."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.admin import keys
from gateway.ledger.opening import open_books
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply
from tests.support.running import Launch
from tests.support.seed import Caller, Seed
from tests.support.stage import Stage
from tests.support.upstream import Wait

WAIT_SECONDS = 30.0


async def test_concurrency_of_an_account_is_that_of_all_its_keys(stage: Stage) -> None:
    """Holders make keys, so a key's limit is no limit to its holder; an account's is."""
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    caller, body = stage.callers["two-at-a-time"], say("plain/1")
    with open_books(stage.gateway.database) as books:
        second = keys.add_key(books, caller.account).secret
    stage.gateway.canaries.append(second.encode())
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stage.chat(body, key=key)) for key in (caller.key, second)]
        await stage.alpha.wait_for(2)
        refused = [await stage.chat(body, key=key) for key in (caller.key, second)]
        gate.set()
    for reply in refused:
        message = check_error(reply, 429, "rate_limit_exceeded")
        assert message.startswith("This account has 2 requests in flight, as many as it may")
    assert [task.result().status for task in tasks] == [200, 200]
    assert (await stage.chat(body, key=second)).status == 200


async def test_a_raised_limit_is_in_force_for_the_very_next_request(
    stage: Stage, spare: Caller
) -> None:
    stage.alpha.always(json_reply(completion()))
    one, two = say("plain/1"), say("plain/2")

    def edit(**changes: Any) -> None:
        with open_books(stage.gateway.database) as books:
            books.accounts.edit(spare.account, cast("Any", changes))

    edit(requests_per_minute=1, models=("plain/2",))
    async with asyncio.timeout(WAIT_SECONDS):
        while (await stage.chat(one, key=spare.key)).status == 200:
            pass
        while (await stage.chat(two, key=spare.key)).status != 429:
            pass
    edit(requests_per_minute=None)
    check_error(await stage.chat(one, key=spare.key), 403, "model_not_allowed")
    assert (await stage.chat(two, key=spare.key)).status == 200
    edit(models=None)
    assert (await stage.chat(one, key=spare.key)).status == 200


async def test_beyond_max_in_flight_is_a_503(launch: Launch, stage: Stage) -> None:
    """This is checked before the key's limits and balance, as it is not the caller's fault."""
    running = launch(seeds=(Seed("rich"), Seed("empty", 0)), server="max_in_flight = 2")
    gate = asyncio.Event()
    stage.alpha.always([Wait(gate), *json_reply(completion())])
    rich, empty = running.callers["rich"].key, running.callers["empty"].key
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(running.gateway.chat(rich, say(f"plain/{n}"))) for n in range(2)]
        await stage.alpha.wait_for(2)
        for key in (rich, empty):
            refused = await running.gateway.chat(key, say("plain/0"))
            check_error(refused, 503, "server_is_overloaded")
        gate.set()
    assert [task.result().status for task in tasks] == [200, 200]
    assert (await running.gateway.chat(rich, say("plain/0"))).status == 200


async def test_slow_body_is_a_408(launch: Launch, stage: Stage) -> None:
    """If it falls silent, and if it drips for too long."""
    running = launch(server="body_idle_seconds = 0.2\nbody_total_seconds = 0.6")
    key = running.callers["rich"].key
    headers = {"Content-Type": "application/json", "x-api-key": key, "Content-Length": "500"}

    async def drip(count: int) -> None:
        async with running.gateway.connect() as call:
            await call.send(request("POST", CHAT, headers))
            for _ in range(count):
                await call.send(b" ")
                await asyncio.sleep(0.08)
            check_error(await call.read_all(), 408, "request_timeout")

    await asyncio.gather(drip(1), drip(12))
    assert stage.alpha.connections == 0
