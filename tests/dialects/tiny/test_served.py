"""An application whose tables have one more row serves the tiny dialect over HTTP like the others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway.api.routes import add_api
from gateway.app import make_gateway
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.dialects.chat.kit import MODEL
from tests.dialects.tiny.dialect import CALLERS, EXCHANGES, UPSTREAMS
from tests.dialects.tiny.said import ASK, FLAG, HEAR, READ, WRITE, Said
from tests.ledger.kit import query
from tests.support.replies import error_reply, http
from tests.support.rows import each_row
from tests.support.seed import Seed, seed
from tests.support.settings import load
from tests.support.upstream import ScriptedUpstream, listen, port_of, serve_scripts

CONFIG = """
[providers.vendor]
dialect = "chat"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "vendor-secret"
[models."{model}"]
routes = ["vendor/theirs"]
price = {{ input = 1, output = 2 }}
"""
SAID = Said("Hello, Wörld! 🎉")
CHARGE_NANO = 9 * 1000 + 3 * 2000
PAIRS = [("tiny", upstream) for upstream in ("chat", "messages", "tiny")]
PAIRS += [(caller, "tiny") for caller in ("chat", "messages")]
each_pair = each_row(("caller", "upstream"), PAIRS)


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """A gateway that knows the tiny dialect, its provider, and what the ledger has stored."""

    client: TestClient[web.Request, web.Application]
    vendor: ScriptedUpstream
    stored: Path
    key: str

    async def ask(self, caller: str, *, stream: bool) -> tuple[int, bytes]:
        body = {**ASK[caller], FLAG[caller]: stream}
        return await self.send("POST", CALLERS[caller].path, json=body)

    async def send(self, method: str, path: str, **options: Any) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        reply = await self.client.request(method, f"/v1{path}", headers=headers, **options)
        return reply.status, await reply.read()

    @property
    def charges_nano(self) -> list[int]:
        return [int(str(cost)) for (cost,) in query(self.stored, "SELECT cost_nano FROM requests")]


@asynccontextmanager
async def serve(folder: Path, upstream: str) -> AsyncIterator[Scene]:
    """Serve the model over a provider of any dialect in the tables."""
    stored = folder / "gateway.db"
    (caller,) = seed(stored, [Seed("holder")]).values()
    with listen() as listener:
        config = load(folder, CONFIG.format(port=port_of(listener), model=MODEL))
        provider = dataclasses.replace(config.providers["vendor"], dialect=upstream)
        config = dataclasses.replace(config, providers={"vendor": provider})
        async with open_sqlite(stored) as ledger, serve_scripts(listener) as vendor:
            gateway = make_gateway(config, ledger, lambda _call, _status: None, EXCHANGES)
            app = web.Application()
            add_api(app, gateway, CALLERS)
            async with TestClient(TestServer(app)) as client:
                yield Scene(client, vendor, stored, caller.key)
            gateway.ticker.close()
            gateway.close()


def write_stream(data: bytes) -> list[bytes]:
    return [http(data, content_type="text/event-stream")]


@each_pair
async def test_a_reply_is_served_and_charged(tmp_path: Path, caller: str, upstream: str) -> None:
    async with serve(tmp_path, upstream) as scene:
        scene.vendor.play([http(WRITE[upstream](SAID)[0])])
        status, body = await scene.ask(caller, stream=False)
        assert (status, READ[caller](body)) == (200, SAID)
        assert scene.charges_nano == [CHARGE_NANO]
        assert scene.vendor.last.target == f"/v1{UPSTREAMS[upstream].path}"
        expected = UPSTREAMS[upstream].auth_headers("vendor-secret")
        got = scene.vendor.last.headers
        assert {name: got.get(name.lower()) for name in expected} == expected


@each_pair
async def test_a_stream_is_served_and_charged(tmp_path: Path, caller: str, upstream: str) -> None:
    async with serve(tmp_path, upstream) as scene:
        scene.vendor.play(write_stream(WRITE[upstream](SAID)[1]))
        status, body = await scene.ask(caller, stream=True)
        assert (status, HEAR[caller](body)) == (200, SAID)
        assert scene.charges_nano == [CHARGE_NANO]


async def test_errors_speak_tiny(tmp_path: Path) -> None:
    """Ours and the provider's, as a reply and in a stream; none is charged."""
    async with serve(tmp_path, "chat") as scene:
        bad = await scene.send("POST", "/tiny", json={"to": MODEL})
        unknown = await scene.send("POST", "/tiny", json={**ASK["tiny"], "to": "no/such"})
        missing = await scene.send("GET", "/tiny/more")
        stranger = await scene.send("POST", "/tiny", headers={"Authorization": "Bearer x"})
        scene.vendor.play(error_reply(500), error_reply(500))
        failed = [await scene.ask("tiny", stream=stream) for stream in (False, True)]
        replies = [bad, unknown, missing, stranger, *failed]
        assert [status for status, _ in replies] == [400, 400, 404, 401, 502, 502]
        assert [list(json.loads(body)) for _, body in replies] == [["oops", "request"]] * 6
        assert not any(scene.charges_nano)


async def test_a_stream_that_fails_ends_in_a_tiny_error(tmp_path: Path) -> None:
    begun = b"\n\n".join(WRITE["chat"](SAID)[1].split(b"\n\n")[:3])
    async with serve(tmp_path, "chat") as scene:
        scene.vendor.play(
            write_stream(begun + b'\n\ndata: {"error":{"message":"said upstream"}}\n\n')
        )
        status, body = await scene.ask("tiny", stream=True)
        *_, last = body.split(b"\n\n")[:-1]
        assert (status, json.loads(last.removeprefix(b"data: "))["oops"]) == (200, "said upstream")
        assert b'"bye"' not in body


async def test_shared_paths_know_a_tiny_caller_by_its_header(tmp_path: Path) -> None:
    async with serve(tmp_path, "chat") as scene:
        _, listed = await scene.send("GET", "/models", headers={"x-tiny": "1"})
        assert json.loads(listed) == {"all": [{"to": MODEL}]}
        _, refused = await scene.send("GET", "/no/such", headers={"x-tiny": "1"})
        assert "oops" in json.loads(refused)
        _, others = await scene.send("GET", "/models")
        assert json.loads(others)["object"] == "list"
