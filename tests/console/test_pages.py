"""The console's page over HTTP: files, headers and unknown paths."""

from __future__ import annotations

import gzip
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from gateway.console import pages
from gateway.console.origin import SECURITY_HEADERS
from tests.support.rows import each_row
from tests.support.stage import Stage

Client = TestClient[web.Request, web.Application]

PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def client(aiohttp_client: AiohttpClient) -> Client:
    app = web.Application()
    app.router.add_get("/console", pages.redirect_home)
    app.router.add_get("/console/static/{file}", pages.show_file)
    for path in pages.PATHS:
        app.router.add_get(path, pages.show_page)
    app.router.add_get("/console/{rest:.*}", pages.show_missing)
    return await aiohttp_client(app, auto_decompress=False)


@each_row("path", pages.PATHS)
async def test_each_page_is_the_same_file(client: Client, path: str) -> None:
    reply = await client.get(re.sub(r"\{.*\}", "a%2Fb%20%7Bc%7D", path), headers=PLAIN)
    assert reply.status == 200
    assert await reply.read() == pages.FILES["index.html"].body
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"


@each_row("path", ["/console/nowhere", "/console/accounts/a/b", "/console/Keys"])
async def test_unknown_paths_are_404_with_the_page(client: Client, path: str) -> None:
    reply = await client.get(path, headers=PLAIN | {"If-None-Match": "*"})
    assert reply.status == 404
    assert await reply.read() == pages.FILES["index.html"].body


async def test_the_bare_address_leads_to_the_page(client: Client) -> None:
    reply = await client.get("/console", allow_redirects=False)
    assert (reply.status, reply.headers["Location"]) == (308, "/console/")


async def test_a_browser_at_the_root_is_led_to_the_page(stage: Stage) -> None:
    reply = await stage.gateway.ask("GET", "/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (reply.status, reply.headers["location"]) == (303, "/console/")
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        reply = await stage.gateway.ask("GET", "/", headers=headers)
        assert (reply.status, reply.json["error"]["code"]) == (404, "unknown_url")


@each_row("path", ["/console", "/console/", "/console/static/app.js", "/console/x"])
async def test_every_reply_has_the_security_headers(client: Client, path: str) -> None:
    reply = await client.get(path, allow_redirects=False)
    assert SECURITY_HEADERS.items() <= reply.headers.items()


@each_row("name", sorted(pages.FILES))
async def test_each_file_is_served_plain_and_packed(client: Client, name: str) -> None:
    """The plain and the gzipped file share an ETag, which avoids sending either again."""
    path = f"/console/static/{name}"
    plain = await client.get(path, headers=PLAIN)
    packed = await client.get(path, headers={"Accept-Encoding": "br;q=1, GZIP;q=0.5"})
    assert plain.headers["Content-Type"] == pages.TYPES[f".{name.split('.')[1]}"]
    assert plain.headers["Cache-Control"] == "no-cache"
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(await packed.read()) == await plain.read()
    etag = plain.headers["ETag"]
    assert etag == packed.headers["ETag"]
    known = await client.get(path, headers={"If-None-Match": f'"other", {etag}'})
    assert (known.status, await known.read(), known.headers["ETag"]) == (304, b"", etag)
    other = await client.get(path, headers={"If-None-Match": '"other"'})
    assert other.status == 200


@each_row("coding", ["gzip;q=0", "gzip ; q=0.000, br", "xgzip", "gzipped", ""])
async def test_who_does_not_take_gzip_gets_none(client: Client, coding: str) -> None:
    reply = await client.get("/console/", headers={"Accept-Encoding": coding})
    assert "Content-Encoding" not in reply.headers


@each_row(
    "name",
    ["..%2fpages.py", "%2e%2e%2fpages.py", "..%5cpages.py", "pages.py", "app.js%00", "APP.JS", "."],
)
async def test_nothing_but_the_files_is_served(client: Client, name: str) -> None:
    """The path of a request is a key of a mapping and never reaches the disk."""
    reply = await client.get(f"/console/static/{name}", headers=PLAIN)
    assert reply.status == 404
    assert await reply.read() == pages.FILES["index.html"].body
