"""A dialect that is put among the extras as a folder is served beside and over all others."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from openai.types.chat import ChatCompletion

from gateway import extension
from gateway.api.routes import add_api
from gateway.api.state import make_gateway
from gateway.dialects.formats import Formats
from gateway.dialects.wire.sse import render_data
from gateway.extension import find_dialects, find_extras, find_formats, find_kinds, find_tables
from gateway.ledger.sqlite.serving import open_sqlite
from tests.dialects.chat.kit import DONE, MODEL, read_chunks
from tests.dialects.tiny.dialect import BYE, ROLES
from tests.ledger.kit import query
from tests.support.accumulated import accumulate
from tests.support.chat import Used
from tests.support.content import Content, of_chat, of_completion
from tests.support.messages import halve
from tests.support.pairs import CHAT_PROVIDER
from tests.support.replies import error_reply, http, json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.seed import Seed, seed
from tests.support.settings import load
from tests.support.upstream import Script, ScriptedUpstream, listen, port_of, serve_scripts

Json = dict[str, Any]

PAIRS: Final = [("tiny", "tiny"), ("tiny", "chat"), ("chat", "tiny")]
"""Others are made of these by the extra `pairs`, whose tests have them."""
COMPOSES: Final = "pairs" in find_extras()
SAID: Final = [Content("Hello, Wörld! 🎉"), Content("Once upon a", finish="length"), Content("")]
TALK: Final = [("rule", "Be brief."), ("me", "Hi!"), ("you", "Hello"), ("me", "Grüße?")]
MESSAGES: Final = [{"role": ROLES[speaker], "content": words} for speaker, words in TALK]
USAGE: Final = {"include_usage": True}
ASK: Final[dict[str, Json]] = {
    "chat": {"model": MODEL, "messages": MESSAGES, "max_tokens": 50, "stream_options": USAGE},
    "tiny": {"to": MODEL, "lines": TALK, "most": 50},
}
FLAG: Final = {"chat": "stream", "tiny": "flow"}
"""The field that asks for a stream."""
ENDS: Final = {"stop": "done", "length": "cut"}
FINISH: Final = {"done": "stop", "cut": "length"}


class TinyProvider:
    """Sends some content as the other providers do."""

    def reply(self, told: Content) -> Script:
        return json_reply({"by": "theirs", "words": told.text, **self._end(told)})

    def stream(self, told: Content) -> Script:
        said: list[Json] = [{"by": "theirs"}, *({"w": part} for part in halve(told.text))]
        return sse_reply([*map(render_data, [*said, self._end(told)]), BYE], done=False)

    def _end(self, told: Content) -> Json:
        assert told.used is not None
        used = {"in": told.used.prompt, "out": told.used.completion}
        return {"end": ENDS[told.finish or "stop"], "used": used}


PROVIDERS: Final[Any] = {"chat": CHAT_PROVIDER, "tiny": TinyProvider()}


def read_tiny(body: bytes) -> Content:
    reply = json.loads(body)
    assert reply["by"] == MODEL
    used = Used(reply["used"]["in"], reply["used"]["out"])
    return Content(reply["words"], finish=FINISH[reply["end"]], used=used)


def hear_tiny(stream: bytes) -> Content:
    first, *words, end, last = read_chunks(stream)
    assert last == {"bye": True}
    return read_tiny(
        json.dumps({**first, "words": "".join(one["w"] for one in words), **end}).encode()
    )


READ: Final[dict[str, Callable[[bytes], Content]]] = {
    "chat": lambda body: of_completion(ChatCompletion.model_validate_json(body).model_dump()),
    "tiny": read_tiny,
}
HEAR: Final[dict[str, Callable[[bytes], Content]]] = {
    "chat": lambda stream: of_chat(accumulate(read_chunks(stream.removesuffix(DONE)))),
    "tiny": hear_tiny,
}


def forget() -> None:
    for find in (find_extras, find_tables, find_dialects, find_kinds, find_formats):
        find.cache_clear()


@pytest.fixture(autouse=True)
def formats(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Formats]:
    """Put the folder among the extras; yield what is spoken then."""
    folder = tmp_path_factory.mktemp("extras")
    for one in (*extension.FOLDER.glob("*"), Path(__file__).parent):
        (folder / one.name).symlink_to(one)
    package = ModuleType("gateway.extras")
    package.__path__ = [str(folder)]
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setattr(extension, "FOLDER", folder)
    forget()
    yield find_formats()
    forget()


def test_every_pair_is_served_and_only_unequal_ones_translate(formats: Formats) -> None:
    exchanges = formats.exchanges
    assert exchanges.keys() == formats.callers.keys()
    if COMPOSES:
        assert all(served.keys() == formats.upstreams.keys() for served in exchanges.values())
    assert COMPOSES == ("tiny" in exchanges["messages"]) == ("messages" in exchanges["tiny"])
    for caller, upstream in PAIRS:
        exchange = exchanges[caller][upstream]
        assert (exchange.caller.name, exchange.upstream.name) == (caller, upstream)
        assert (exchange.translation is None) == (caller == upstream)


CONFIG = """
[providers.vendor]
dialect = "{dialect}"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "vendor-secret"
[models."{model}"]
routes = ["vendor/theirs"]
max_output_tokens = 100
price = {{ input = 1, output = 2 }}
"""
CHARGE_NANO: Final = 11 * 1000 + 7 * 2000


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """A gateway that knows the tiny dialect, its provider, and what the ledger has stored."""

    client: TestClient[web.Request, web.Application]
    vendor: ScriptedUpstream
    stored: Path
    key: str

    async def ask(self, caller: str, *, stream: bool) -> tuple[int, bytes]:
        body = {**ASK[caller], FLAG[caller]: stream}
        return await self.send("POST", find_formats().callers[caller].path, json=body)

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
        text = CONFIG.format(port=port_of(listener), model=MODEL, dialect=upstream)
        config = load(folder, text)
        async with open_sqlite(stored) as ledger, serve_scripts(listener) as vendor:
            gateway = make_gateway(config, ledger)
            app = web.Application()
            add_api(app, gateway)
            async with TestClient(TestServer(app)) as client:
                yield Scene(client, vendor, stored, caller.key)
            gateway.close()


@each_row(("caller", "upstream"), PAIRS)
async def test_replies_and_streams_say_the_same_and_are_charged(
    tmp_path: Path, caller: str, upstream: str
) -> None:
    provider, read = PROVIDERS[upstream], {False: READ[caller], True: HEAR[caller]}
    async with serve(tmp_path, upstream) as scene:
        for said, stream in itertools.product(SAID, (False, True)):
            scene.vendor.play(provider.stream(said) if stream else provider.reply(said))
            status, body = await scene.ask(caller, stream=stream)
            assert (status, read[stream](body)) == (200, said)
            sent = scene.vendor.last
            spoken = find_formats().upstreams[upstream]
            assert sent.target == f"/v1{spoken.path}"
            places = [json.dumps(sent.json, ensure_ascii=False).index(words) for _, words in TALK]
            assert places == sorted(places)
            assert sent.json.get(FLAG[upstream], False) is stream
            expected = spoken.auth_headers("vendor-secret")
            assert {name: sent.headers.get(name.lower()) for name in expected} == expected
        assert scene.charges_nano == [CHARGE_NANO] * 2 * len(SAID)


async def test_errors_speak_tiny(tmp_path: Path) -> None:
    """Ours and the provider's, as a reply and in a stream; none is charged. Shared paths tell by its header."""
    begun = b"".join(CHAT_PROVIDER.events(SAID[0])[:3])
    async with serve(tmp_path, "chat") as scene:
        bad = await scene.send("POST", "/tiny", json={"to": MODEL})
        unknown = await scene.send("POST", "/tiny", json={**ASK["tiny"], "to": "no/such"})
        missing = await scene.send("GET", "/tiny/more")
        stranger = await scene.send("POST", "/tiny", headers={"Authorization": "Bearer x"})
        shared = await scene.send("GET", "/no/such", headers={"x-tiny": "1"})
        scene.vendor.play(error_reply(500), error_reply(500))
        failed = [await scene.ask("tiny", stream=stream) for stream in (False, True)]
        replies = [bad, unknown, missing, stranger, shared, *failed]
        assert [status for status, _ in replies] == [400, 400, 404, 401, 404, 502, 502]
        assert [list(json.loads(body)) for _, body in replies] == [["oops", "request"]] * 7
        assert not any(scene.charges_nano)
        data = begun + CHAT_PROVIDER.error_event("said upstream")
        scene.vendor.play([http(data, content_type="text/event-stream")])
        status, body = await scene.ask("tiny", stream=True)
        *_, last = body.split(b"\n\n")[:-1]
        assert (status, json.loads(last.removeprefix(b"data: "))["oops"]) == (200, "said upstream")
        assert b'"bye"' not in body
        _, listed = await scene.send("GET", "/models", headers={"x-tiny": "1"})
        assert json.loads(listed) == {"all": [{"to": MODEL}]}
        _, others = await scene.send("GET", "/models")
        assert json.loads(others)["object"] == "list"
