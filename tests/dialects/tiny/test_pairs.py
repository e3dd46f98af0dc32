"""All pairs of three dialects, one of which the gateway does not know: a folder and a row; served over HTTP."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway.api.routes import add_api
from gateway.api.state import make_gateway
from gateway.dialects.records import CompletionRequest, ReplyContext, Target
from gateway.errors import UpstreamError
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, each_byte, play
from tests.dialects.tiny.dialect import CALLERS, EXCHANGES, ROLES, UPSTREAMS
from tests.dialects.tiny.said import ASK, FLAG, HEAR, READ, TALK, WRITE, Said
from tests.ledger.kit import query
from tests.support.replies import error_reply, http
from tests.support.rows import each_row
from tests.support.seed import Seed, seed
from tests.support.settings import load
from tests.support.upstream import ScriptedUpstream, listen, port_of, serve_scripts

Json = dict[str, Any]

NAMES = ("chat", "messages", "tiny")
PAIRS = [
    (caller, upstream) for caller in NAMES for upstream in NAMES if "tiny" in {caller, upstream}
]
"""The others are those of `tests/dialects/test_provider_streams.py`."""
each_pair = each_row(("caller", "upstream"), PAIRS)

SAID = [Said("Hello, Wörld! 🎉"), Said("Once upon a", "cut"), Said("", used=(9, 0))]
each_said = each_row("said", SAID)

TARGET = Target("theirs")


def talk_chat(body: Json) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


def talk_messages(body: Json) -> list[tuple[str, str]]:
    system = body.get("system") or []
    system = [{"text": system}] if isinstance(system, str) else system
    said = [("system", block["text"]) for block in system]
    for message in body["messages"]:
        content = message["content"]
        text = content if isinstance(content, str) else "".join(one["text"] for one in content)
        said.append((message["role"], text))
    return said


def talk_tiny(body: Json) -> list[tuple[str, str]]:
    return [(ROLES[speaker], words) for speaker, words in body["lines"]]


TALK_OF = {"chat": talk_chat, "messages": talk_messages, "tiny": talk_tiny}
TOLD = [(ROLES[speaker], words) for speaker, words in TALK]
LIMIT = {"chat": "max_tokens", "messages": "max_tokens", "tiny": "most"}


def make_context() -> ReplyContext:
    request = CompletionRequest({}, MODEL, True, True, 1, None, 4 * INPUT_ESTIMATE, 0)
    expected = Expected(INPUT_ESTIMATE, UsageLimits(10**6, 10**6, 10**6))
    return ReplyContext(request, "request-1", expected, created=1_700_000_000)


def test_every_pair_is_served_and_only_unequal_ones_translate() -> None:
    assert EXCHANGES.keys() == CALLERS.keys()
    assert all(served.keys() == UPSTREAMS.keys() for served in EXCHANGES.values())
    for caller, upstream in itertools.product(NAMES, NAMES):
        exchange = EXCHANGES[caller][upstream]
        assert (exchange.caller.name, exchange.upstream.name) == (caller, upstream)
        assert (exchange.translation is None) == (caller == upstream)


@each_pair
def test_a_request_asks_the_same_of_every_upstream(caller: str, upstream: str) -> None:
    exchange = EXCHANGES[caller][upstream]
    request = exchange.caller.parse_request(json.dumps(ASK[caller]).encode())
    assert (request.model, request.stream, request.max_tokens) == (MODEL, True, 50)
    asked = json.loads(exchange.write_request(request, TARGET).data)
    assert asked["to" if upstream == "tiny" else "model"] == "theirs"
    assert TALK_OF[upstream](asked) == TOLD
    assert (asked[FLAG[upstream]], asked[LIMIT[upstream]]) == (True, 50)
    if upstream == "chat":
        assert asked["stream_options"] == {"include_usage": True}


@each_pair
@each_said
def test_a_reply_says_the_same_and_is_charged_as_reported(
    caller: str, upstream: str, said: Said
) -> None:
    body, _ = WRITE[upstream](said)
    reply = EXCHANGES[caller][upstream].read_reply(body, make_context())
    assert READ[caller](reply.body) == said
    assert said.used is not None
    assert (reply.metered.tokens, reply.metered.estimated) == (
        Tokens(said.used[0], output=said.used[1]),
        False,
    )


@pytest.mark.no_cover
@each_pair
@each_said
def test_a_stream_says_the_same_at_every_split_point(
    caller: str, upstream: str, said: Said
) -> None:
    exchange = EXCHANGES[caller][upstream]
    _, data = WRITE[upstream](said)
    whole = play(exchange.open_stream(make_context()), [data])
    assert (whole.complete, whole.failure) == (True, None)
    assert HEAR[caller](whole.out) == said
    assert said.used is not None
    assert (whole.tokens, whole.estimated) == (Tokens(said.used[0], output=said.used[1]), False)
    for cut in range(1, len(data), 31):
        played = play(exchange.open_stream(make_context()), [data[:cut], data[cut:]])
        assert played == whole, cut
    assert play(exchange.open_stream(make_context()), each_byte(data)) == whole


ERRORS: dict[str, tuple[Json, bytes]] = {
    "chat": ({"error": {"message": "said upstream"}}, b"data: %b\n\n"),
    "messages": (
        {"type": "error", "error": {"type": "api_error", "message": "said upstream"}},
        b"event: error\ndata: %b\n\n",
    ),
    "tiny": ({"oops": "said upstream"}, b"data: %b\n\n"),
}


@each_pair
def test_an_error_upstream_is_a_failure_in_the_callers_words(caller: str, upstream: str) -> None:
    """In a 200, whole or in the middle of a stream; nothing follows it."""
    error, template = ERRORS[upstream]
    body = json.dumps(error).encode()
    exchange = EXCHANGES[caller][upstream]
    with pytest.raises(UpstreamError, match="said upstream"):
        exchange.read_reply(body, make_context())
    _, data = WRITE[upstream](Said("Hello"))
    blocks = data.split(b"\n\n")
    begun = b"\n\n".join(blocks[:3]) + b"\n\n"
    played = play(exchange.open_stream(make_context()), [begun + template % body + data])
    assert (played.complete, played.failure) == (False, "said upstream")
    before = play(exchange.open_stream(make_context()), [begun])
    assert played.out == before.out
    event = exchange.caller.render_error_event(UpstreamError("m"), "request-1", None, {})
    assert event.endswith(b"\n\n")
    assert exchange.caller.render_error(UpstreamError("m"), "request-1") in event


CONFIG = """
[providers.vendor]
dialect = "chat"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "vendor-secret"
[models."{model}"]
routes = ["vendor/theirs"]
price = {{ input = 1, output = 2 }}
"""
SERVED = Said("Hello, Wörld! 🎉")
CHARGE_NANO = 9 * 1000 + 3 * 2000
SERVED_PAIRS = [("tiny", upstream) for upstream in ("chat", "messages", "tiny")]
SERVED_PAIRS += [(caller, "tiny") for caller in ("chat", "messages")]
each_served_pair = each_row(("caller", "upstream"), SERVED_PAIRS)


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
            gateway = make_gateway(config, ledger, EXCHANGES)
            app = web.Application()
            add_api(app, gateway, CALLERS)
            async with TestClient(TestServer(app)) as client:
                yield Scene(client, vendor, stored, caller.key)
            gateway.close()


def write_stream(data: bytes) -> list[bytes]:
    return [http(data, content_type="text/event-stream")]


@each_served_pair
async def test_a_reply_is_served_and_charged(tmp_path: Path, caller: str, upstream: str) -> None:
    async with serve(tmp_path, upstream) as scene:
        scene.vendor.play([http(WRITE[upstream](SERVED)[0])])
        status, body = await scene.ask(caller, stream=False)
        assert (status, READ[caller](body)) == (200, SERVED)
        assert scene.charges_nano == [CHARGE_NANO]
        assert scene.vendor.last.target == f"/v1{UPSTREAMS[upstream].path}"
        expected = UPSTREAMS[upstream].auth_headers("vendor-secret")
        got = scene.vendor.last.headers
        assert {name: got.get(name.lower()) for name in expected} == expected


@each_served_pair
async def test_a_stream_is_served_and_charged(tmp_path: Path, caller: str, upstream: str) -> None:
    async with serve(tmp_path, upstream) as scene:
        scene.vendor.play(write_stream(WRITE[upstream](SERVED)[1]))
        status, body = await scene.ask(caller, stream=True)
        assert (status, HEAR[caller](body)) == (200, SERVED)
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
    begun = b"\n\n".join(WRITE["chat"](SERVED)[1].split(b"\n\n")[:3])
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
