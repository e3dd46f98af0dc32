"""Switches of a gateway that serves: heard at once, kept over reloads and restarts, told by an alert."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from gateway.api.state import Gateway
from gateway.config.records import Config
from gateway.extras.switches.book import SwitchBook, switch_off, switch_on
from gateway.extras.switches.serving import Switches, switch
from gateway.ledger.sqlite.books import SqliteBooks
from tests.support import replies
from tests.support.config import Places
from tests.support.extras import need_extra
from tests.support.process import GatewayProcess
from tests.support.served import Served, open_served, start_served
from tests.support.settings import load
from tests.support.upstream import ScriptedUpstream, Wait
from tests.support.waiting import until

LARGE: Final = "vendor/large"
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], replies.usage(10, 5)))
SLOW: Final = """
[providers.slow]
dialect = "chat"
base_url = "{url}"
api_key = "sk-upstream"
[models.slow]
routes = ["slow/m", "demo/echo"]
price = {{ input = 1, output = 2 }}
"""


async def list_served(served: Served, secret: str) -> list[str]:
    headers = {"Authorization": f"Bearer {secret}"}
    found = (await served.send("GET", "/v1/models", headers=headers)).json["data"]
    return [one["id"] for one in found]


async def run(process: GatewayProcess, *words: str) -> str:
    ran = await process.run(*words)
    assert ran.code == 0, ran.err
    return ran.err


@need_extra("reloads")
async def test_a_gateway_hears_a_switch_and_keeps_it(tmp_path: Path) -> None:
    async with start_served(tmp_path) as served:
        process, secret = served.process, await served.add_key()
        assert await list_served(served, secret) == ["demo/echo", LARGE]
        await run(process, "model", "off", LARGE, "--note", "why")
        assert await list_served(served, secret) == ["demo/echo"]
        unknown = await served.complete(secret, model=LARGE)
        assert unknown.refusal == (400, "model_not_found", None)
        assert "is switched off here; the operator can say why." in unknown.error["message"]
        assert (await run(process, "reload")).startswith("nothing changed; off: vendor (the env")
        assert await list_served(served, secret) == ["demo/echo"]
        await run(process, "provider", "off", "demo")
        assert await list_served(served, secret) == []
        process.stop()
        process.start()
        assert await list_served(served, secret) == []
        # The start serves before it has logged what is off.
        off = "provider demo is off: switched off on "
        await until(lambda: off in process.log, "the provider that is off")
        assert f"model {LARGE} is off: switched off on " in process.log
        await run(process, "provider", "on", "demo")
        assert await list_served(served, secret) == ["demo/echo"]
        await run(process, "model", "on", LARGE)
        assert (await served.complete(secret, model=LARGE)).status == 200


async def test_a_switch_that_failed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_served(tmp_path) as served:
        gateway = served.gateway
        (switches,), reconfigure = gateway.find_offers(Switches), type(gateway).reconfigure
        tries: list[bool] = []

        async def fail_once(self: Gateway, read: Config | None = None) -> None:
            tries.append(True)
            if len(tries) == 1:
                raise RuntimeError("can't start new thread")
            await reconfigure(self, read)

        monkeypatch.setattr(type(gateway), "reconfigure", fail_once)
        with served.open_books() as books:
            switch_off(books, gateway.config, "model", LARGE, "")
        async with asyncio.timeout(30):
            while LARGE in gateway.routes.models:
                with suppress(RuntimeError):
                    await switches.refresh()
        assert len(tries) > 1


async def test_a_call_in_flight_ends_at_a_provider_that_is_off(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places
) -> None:
    """The next one goes to the next route."""
    async with open_served(tmp_path, more=SLOW.format(url=places.urls["alpha"])) as served:
        secret, go_on = await served.add_key(), asyncio.Event()
        alpha.play([*STREAM[:2], Wait(go_on), *STREAM[2:]])
        begun = asyncio.get_running_loop().create_task(
            served.complete(secret, model="slow", stream=True)
        )
        await alpha.wait_for(1)
        (switches,) = served.gateway.find_offers(Switches)
        with served.open_books() as books:
            assert switch_off(books, served.gateway.config, "provider", "slow", "")
        await switches.refresh()
        assert (await served.complete(secret, model="slow")).status == 200
        go_on.set()
        assert (await begun).body.endswith(replies.DONE)
        assert len(alpha.exchanges) == 1
        charged = served.execute("SELECT provider, state FROM requests ORDER BY started_ms")
        assert charged == [("slow", "posted"), ("demo", "posted")]


def test_the_file_keeps_its_reasons_and_lacks_no_name(tmp_path: Path) -> None:
    """A switch of a model that is gone makes no difference, and can be switched on."""
    config = load(tmp_path, SLOW.format(url="http://127.0.0.1:9/v1").replace(', "demo/echo"', ""))
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        switches = SwitchBook(books)
        switches.set_off("model", "gone", "")
        switches.set_off("provider", "gone", "")
        assert switch(config, []) is config
        assert switch(config, switches.read_all()) == config
        assert switch_on(books, config, "model", "gone")
        switches.set_off("provider", "slow", "why")
        adjusted = switch(config, switches.read_all())
        reason = adjusted.providers["slow"].off
        assert reason is not None
        assert reason.startswith("switched off on ")
        assert reason.endswith(" UTC by cli: why")
        assert (adjusted.models, adjusted.active_models()) == (config.models, {})


@need_extra("alerts")
async def test_what_is_off_is_told_once(tmp_path: Path) -> None:
    """But for what another process may have in its file."""
    from tests.extras.alerts.receiver import listen
    from tests.extras.alerts.test_watch import arrive, watch

    with listen() as receiver:
        async with watch(tmp_path, receiver) as served:
            with served.open_books() as books:
                switches = SwitchBook(books)
                assert switches.set_off("model", "gone", "")
                assert switches.set_off("model", LARGE, "why")
                assert switches.set_off("provider", "demo", "")
                told = await arrive(receiver, "switched_off", 2)
                assert {one["subject"] for one in told} == {f"model {LARGE}", "provider demo"}
                assert sum(one["text"].endswith(" UTC by cli: why.") for one in told) == 1
                assert switches.set_on("model", LARGE)
                assert switches.set_on("model", "gone")
                *_, end = await arrive(receiver, "switched_off", 3)
            assert end["text"] == f"Model {LARGE} is switched on again."
            assert (end["state"], end["subject"]) == ("ended", f"model {LARGE}")
