"""A stream's head that cannot be sent because the ledger does not record the hold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from gateway.admin import accounts, keys
from gateway.app import make_app, make_gateway
from gateway.config import load_config
from gateway.ledger import Account
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.api.scene import ASKS, PATHS
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, find_key, make_place, query
from tests.support import client
from tests.support.chat import check_error, check_messages_error
from tests.support.client import Call, request
from tests.support.config import Kind, Places, write_config
from tests.support.replies import (
    completion,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
)
from tests.support.upstream import End, ScriptedUpstream
from tests.support.waiting import until

CREDIT: Final = 10**12
COMMIT_SECONDS: Final = 0.3
"""Replaces the five seconds that a caller waits for a commit."""
MODEL: Final = "plain/0"


@dataclass(frozen=True, slots=True)
class Inside:
    """A gateway in the test's process, whose ledger can be broken and repaired."""

    ledger: SqliteLedger
    faults: Faults
    place: Place
    key: str
    port: int

    @property
    def account(self) -> Account:
        return find_key(self.ledger, self.place).account

    async def ask(self, call: Call, caller: str, *, stream: bool) -> None:
        headers = {"Content-Type": "application/json", "x-api-key": self.key}
        body = json.dumps(ASKS[caller](MODEL, stream=stream)).encode()
        await call.send(request("POST", PATHS[caller], headers, body))


@pytest.fixture
async def inside(tmp_path: Path, places: Places) -> AsyncIterator[Inside]:
    place = make_place(tmp_path, credit_nano=CREDIT)
    with accounts.open_books(place.path) as books:
        secret = keys.add_key(books, "a").secret
    file = tmp_path / "gateway.toml"
    file.write_text(write_config(places, port=1, kinds={"plain": Kind(("alpha",), 1)}))
    config = load_config(file, {})
    faults = Faults()
    async with SqliteLedger.open(
        place.path, commit_seconds=COMMIT_SECONDS, connector=faults.connect
    ) as ledger:
        gateway = make_gateway(config, ledger, lambda _call, _status: None)
        runner = web.AppRunner(make_app(gateway), access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        yield Inside(ledger, faults, place, secret, port)
        await runner.cleanup()
        assert (gateway.in_flight, gateway.body_bytes) == (0, 0)
        gateway.ticker.close()
        gateway.routes.close()


def check_refused(reply: client.Reply, caller: str) -> None:
    assert b"Hallo" not in reply.body
    if caller == "chat":
        check_error(reply, 503, "server_is_overloaded")
    else:
        check_messages_error(reply, 503, "overloaded_error")


@pytest.mark.parametrize("caller", PATHS)
async def test_a_head_that_could_not_be_sent_costs_nothing(
    inside: Inside, alpha: ScriptedUpstream, caller: str
) -> None:
    """The provider's work is aborted, the hold is dropped, the caller gets a 503."""
    alpha.play([*sse_start(text_chunks(["Hallo"])), End.HANG])
    async with client.connect(inside.port) as call:
        with inside.faults.fail_commits():
            await inside.ask(call, caller, stream=True)
            exchange = await alpha.wait_for(1)
            assert inside.account.held_nano > 0
            reply = await call.read_all()
            check_refused(reply, caller)
            await asyncio.wait_for(exchange.closed.wait(), 1)
    await until(lambda: inside.account.held_nano == 0, "the hold to be gone")
    assert inside.account.balance_nano == CREDIT
    row = ("voided", "ledger_error", 503, 0, 0)
    columns = "state, outcome, status, cost_nano, output_tokens"
    assert query(inside.place.path, f"SELECT {columns} FROM requests") == [row]
    assert query(inside.place.path, "SELECT count(*) FROM entries WHERE kind = 'charge'") == [(0,)]


async def test_the_next_request_is_served_once_the_ledger_is_back(
    inside: Inside, alpha: ScriptedUpstream
) -> None:
    """The caller uses the same connection."""
    alpha.play(sse_reply(stream_chunks(["Hallo"])), json_reply(completion()))
    async with client.connect(inside.port) as call:
        with inside.faults.fail_commits():
            await inside.ask(call, "chat", stream=True)
            check_refused(await call.read_all(), "chat")
        await until(lambda: inside.ledger.writable, "the ledger to be back")
        await inside.ask(call, "chat", stream=False)
        await call.read_head()
        assert (await call.read_all()).status == 200
