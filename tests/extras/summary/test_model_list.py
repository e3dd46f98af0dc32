"""A look at a provider's list of models: what each kind of answer is taken for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from gateway.config.records import Provider
from gateway.extras.summary.model_list import USABLE, Finding, look_at
from tests.support.records import make_provider
from tests.support.rows import each_row

KEY: Final = "sk-vendor-canary-0123456789"
LIST: Final = {"data": [{"id": "small"}, {"id": "models/large"}, {"name": "odd"}, "odd"]}
HTML: Final = "<!doctype html><title>Welcome</title>"


@dataclass
class Vendor:
    """A server with replies by path; everything else is a 404 in JSON."""

    replies: Mapping[str, tuple[int, Any]]
    url: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    async def answer(self, http: web.BaseRequest) -> web.Response:
        self.asked.append((f"{http.method} {http.path_qs}", dict(http.headers)))
        status, body = self.replies.get(http.path, (404, {"error": {"code": "unknown_url"}}))
        if isinstance(body, str):
            return web.Response(status=status, text=body, content_type="text/html")
        return web.json_response(body, status=status)

    async def look(self, path: str = "/v1", **changes: Any) -> Finding:
        facts = {"api_keys": (KEY,), "base_url": f"{self.url}{path}", **changes}
        return await look_at(make_provider(**facts), ["small", "large"])


@asynccontextmanager
async def serve(replies: Mapping[str, tuple[int, Any]]) -> AsyncIterator[Vendor]:
    vendor = Vendor(replies)
    async with RawTestServer(vendor.answer) as server:
        vendor.url = str(server.make_url("")).rstrip("/")
        yield vendor


@each_row(
    ("dialect", "asked", "sent"),
    [
        ("chat", "GET /v1/models", {"Authorization": f"Bearer {KEY}", "X-Extra": "yes"}),
        ("messages", "GET /v1/models?limit=1000", {"x-api-key": KEY, "anthropic-version": "2023-06-01"}),
    ],
)  # fmt: skip
async def test_each_dialect_is_asked_its_own_way(
    dialect: str, asked: str, sent: dict[str, str]
) -> None:
    async with serve({"/v1/models": (200, LIST)}) as vendor:
        finding = await vendor.look(dialect=dialect, headers={"X-Extra": "yes"})
        ((request, headers),) = vendor.asked
    assert (finding.verdict, finding.words) == ("well", "reachable, 2 models")
    assert (request, headers) == (asked, headers | sent)


REPLIES: Final[dict[str, tuple[dict[str, tuple[int, Any]], str, str, str]]] = {
    "misspelt": ({"/v1/models": (200, {"data": [{"id": "small"}, {"id": "larger"}]})}, "/v1", "unknown_models", "not among them: large (did you mean larger?)"),
    "not in the list": ({"/v1/models": (200, {"data": [{"id": "small"}]})}, "/v1", "unknown_models", "large"),
    "on another page, perhaps": ({"/v1/models": (200, {"data": [], "has_more": True})}, "/v1", "well", "reachable"),
    "key refused": ({"/v1/models": (401, {"error": {"message": f"no: {KEY}"}})}, "/v1", "key_refused", "refuses the key (status 401)"),
    "forbidden": ({"/v1/models": (403, HTML)}, "/v1", "key_refused", "status 403"),
    "no /v1": ({"/v1/models": (200, LIST)}, "", "wrong_path", '/v1"'),
    "no /v1, key refused there": ({"/v1/models": (401, {})}, "", "wrong_path", '/v1"'),
    "a page without /v1": ({"/models": (200, HTML), "/v1/models": (200, LIST)}, "", "wrong_path", "status 200, but no JSON"),
    "/v1 twice": ({"/v1/models": (200, LIST)}, "/v1/v1", "wrong_path", '/v1"'),
    "a page": ({"/v1/models": (404, HTML)}, "/v1", "wrong_path", "a web page"),
    "no list": ({}, "/v1", "no_list", "status 404 unknown_url"),
    "not allowed": ({"/v1/models": (405, {})}, "/v1", "no_list", "status 405"),
    "JSON, but no list": ({"/v1/models": (200, {"models": []})}, "/v1", "no_list", "status 200"),
    "limited": ({"/v1/models": (429, {})}, "/v1", "limited", "status 429"),
    "behind a byte order mark": ({"/v1/models": (200, "\ufeff" + json.dumps(LIST))}, "/v1", "well", "2 models"),
    "failing": ({"/v1/models": (500, {})}, "/v1", "failed", "answers with status 500"),
}  # fmt: skip


@each_row("name", REPLIES)
async def test_each_kind_of_answer_has_its_verdict(name: str) -> None:
    replies, path, verdict, words = REPLIES[name]
    async with serve(replies) as vendor:
        finding = await vendor.look(path)
    assert (finding.verdict, words in finding.words) == (verdict, True), finding.words
    assert KEY not in finding.words
    assert finding.is_usable is (verdict in USABLE)


async def test_a_missing_key_is_told_from_a_wrong_one() -> None:
    async with serve({"/v1/models": (401, {})}) as vendor:
        assert "api_key is not set" in (await vendor.look(api_keys=())).words


@asynccontextmanager
async def answer_once(words: bytes) -> AsyncIterator[Provider]:
    """Yield a provider whose server says these words to one caller, and waits for it to go."""
    gone = asyncio.Event()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        while await reader.read(1 << 16):
            pass
        writer.close()
        await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield make_provider(base_url=f"http://127.0.0.1:{port}/v1")
        await gone.wait()


async def test_what_is_no_http_is_told() -> None:
    async with answer_once(b"SSH-2.0-x\r\n\r\n") as provider:
        finding = await look_at(provider, [])
    assert (finding.verdict, "broke off" in finding.words) == ("failed", True)


async def test_silence_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.extras.summary.model_list.LOOK_SECONDS", 0.05)
    async with answer_once(b"") as provider:
        finding = await look_at(provider, [])
    assert (finding.verdict, "no answer within" in finding.words) == ("failed", True)
