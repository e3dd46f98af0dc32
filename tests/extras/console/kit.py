"""Use the console like a script: a real gateway in a folder, people signed in, JSON in and out.

    async with open_console(tmp_path) as console:
        reply = await console.post("/console/api/keys", {"name": "laptop"}, as_=HOLDER)
        assert reply.status == 201, reply.json

The gateway runs in this process by default, which is quick. `start_console` runs
`python -m gateway` instead, for tests of logs, signals or the command line. An account is signed in
by a link when it makes its first request.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy

from gateway.api.state import Gateway, make_gateway
from gateway.config.load import load_config
from gateway.extras.console import signin
from gateway.ledger.opening import open_ledger
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import NANO
from gateway.server.serve import make_app
from tests.support.process import GatewayProcess, free_port

HOLDER: Final = "holder"
OTHER: Final = "other"
OPERATOR: Final = "operator"
CREDIT_NANO: Final = 100 * NANO
"""The first balance of each of the three accounts."""
MODEL: Final = "demo/echo"
API: Final = "/console/api"

CONFIG: Final = """
[server]
port = {port}
{server}
[billing]
currency = "{currency}"
{billing}
[providers.demo]
dialect = "demo"
[providers.vendor]
dialect = "chat"
base_url = "https://api.example.com/v1"
api_key = "env:NO_SUCH_API_KEY"
[models."demo/echo"]
routes = ["demo/echo"]
price = {{ input = 0.15, output = 0.60 }}
cost = {{ input = 0.05, output = 0.20 }}
[models."vendor/large"]
aliases = ["large"]
routes = ["vendor/large", "demo/echo"]
price = {{ input = 1, cached_input = 0.5, output = 2 }}
[models."vendor/off"]
routes = ["vendor/off"]
price = {{ input = 1, output = 2 }}
{more}
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the console."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """Return the error object of an error reply."""
        assert self.status >= 400, self.body
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def refusal(self) -> tuple[int, str, str | None]:
        """Return status, code and field of an error reply, which most tests compare."""
        return self.status, self.error["code"], self.error.get("field")


@dataclass(slots=True)
class Console:
    """A served gateway, with the sessions of the accounts that have made requests."""

    folder: Path
    port: int
    web: aiohttp.ClientSession
    gateway: Gateway | None
    """The gateway of this process; None if it runs in another one."""
    process: GatewayProcess | None = None
    cookies: dict[str, str] = field(default_factory=dict, repr=False)
    """The session cookies, `name=value`, by account."""

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "gateway.db"

    def open_books(self) -> SqliteBooks:
        """Open the database by a connection of its own, as the command line does."""
        return SqliteBooks(self.database)

    def account_id(self, name: str) -> int:
        with self.open_books() as books:
            return books.accounts.read(name).id

    async def get(self, path: str, *, as_: str | None = HOLDER, **more: Any) -> Reply:
        return await self.ask("GET", path, as_=as_, **more)

    async def post(
        self, path: str, body: object = None, *, as_: str | None = HOLDER, **more: Any
    ) -> Reply:
        """Send a POST; `key` is the Idempotency-Key."""
        return await self.ask("POST", path, body, as_=as_, **more)

    async def patch(
        self, path: str, body: object, *, as_: str | None = HOLDER, **more: Any
    ) -> Reply:
        return await self.ask("PATCH", path, body, as_=as_, **more)

    async def delete(self, path: str, *, as_: str | None = HOLDER, **more: Any) -> Reply:
        return await self.ask("DELETE", path, as_=as_, **more)

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        as_: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request like the page does; `headers` are added last and may override any.

        A body of bytes is sent unchanged; with `as_` None nobody is signed in.
        """
        sent = {} if method == "GET" else {"Sec-Fetch-Site": "same-origin"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if key is not None:
            sent["Idempotency-Key"] = key
        if as_ is not None:
            if as_ not in self.cookies:
                await self.sign_in(as_)
            sent["Cookie"] = self.cookies[as_]
        sent.update(headers or {})
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        async with self.web.request(
            method, self.root_url + path, data=data, headers=sent, allow_redirects=False
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def sign_in(self, name: str) -> Reply:
        """Sign in by a link from the operator; later requests with this `as_` use the session."""
        reply = await self.ask("POST", f"{API}/session/link", {"token": self.make_link_token(name)})
        assert reply.status == 200, reply.body
        self.cookies[name] = read_cookie(reply)
        return reply

    def make_link_token(self, name: str) -> str:
        with self.open_books() as books:
            return signin.make_signin_link(books, name).token

    async def complete(
        self, secret: str, words: str = "Hello!", *, model: str = MODEL, stream: bool = False
    ) -> Reply:
        """Ask for a chat completion with a service key."""
        body = {"model": model, "messages": [{"role": "user", "content": words}], "stream": stream}
        return await self.ask(
            "POST", "/v1/chat/completions", body, headers={"Authorization": f"Bearer {secret}"}
        )


def read_cookie(reply: Reply) -> str:
    """Return the cookie that a reply sets, as `name=value`."""
    return reply.headers["Set-Cookie"].partition(";")[0]


async def read_pages(console: Console, path: str, name: str, **more: Any) -> list[Any]:
    """Read all pages of a list, by its links."""
    rows: list[Any] = []
    target = path
    while True:
        reply = await console.get(target, **more)
        rows += reply.json[name]
        link = reply.headers.get("Link")
        assert (link is None) == (reply.json["next_cursor"] is None)
        if link is None:
            assert reply.json.get("count") in {None, len(rows)}
            return rows
        target = link.removeprefix("<").removesuffix('>; rel="next"')


def execute(console: Console, statement: str, *values: object) -> list[Any]:
    with contextlib.closing(sqlite3.connect(console.database)) as connection, connection:
        return connection.execute(statement, values).fetchall()


@contextlib.asynccontextmanager
async def open_console(folder: Path, **prepared: Any) -> AsyncIterator[Console]:
    """Open a gateway in this process; at the end, check that its books add up.

    `prepared` is for `prepare`.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        prepare(folder, port, **prepared)
        config = load_config(folder / "gateway.toml", {})
        async with contextlib.AsyncExitStack() as stack:
            ledger = await stack.enter_async_context(open_ledger(config.storage.location))
            gateway = make_gateway(config, ledger)
            stack.callback(_close, gateway)
            runner = web.AppRunner(make_app(gateway), access_log=None, auto_decompress=False)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, listener).start()
            session = await stack.enter_async_context(_make_client())
            yield Console(folder, port, session, gateway)
    prove_books(folder)


@contextlib.asynccontextmanager
async def start_console(folder: Path, **prepared: Any) -> AsyncIterator[Console]:
    """Start a gateway in its own process; at the end, check exit code, log and files.

    Add secrets that must appear nowhere to `console.process.canaries`.
    """
    process = GatewayProcess(folder, free_port())
    prepare(folder, process.port, **prepared)
    process.start()
    try:
        async with _make_client() as session:
            yield Console(folder, process.port, session, None, process)
        process.stop()
    finally:
        process.kill()
    prove_books(folder)


def prepare(
    folder: Path,
    port: int,
    *,
    server: str = "",
    billing: str = "",
    currency: str = "USD",
    more: str = "",
    seed: Callable[[SqliteBooks], object] | None = None,
) -> None:
    """Write gateway.toml and a database with the three accounts.

    `server`, `billing` and `more` are lines for gateway.toml; `seed` runs before the start.
    """
    values = {"server": server, "billing": billing, "currency": currency, "more": more}
    text = CONFIG.format(port=port, **values)
    (folder / "gateway.toml").write_text(text, encoding="utf-8")
    path = make_database(folder)
    if seed is not None:
        with SqliteBooks(path) as books:
            seed(books)


def make_database(folder: Path) -> Path:
    """Copy a database that is made once, as making one costs a dozen fsyncs."""
    path = folder / "gateway.db"
    path.write_bytes(_make_database())
    return path


@functools.cache
def _make_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.db"
        with SqliteBooks(path, create=True) as books:
            for name in (HOLDER, OTHER, OPERATOR):
                books.accounts.create(name, credit_nano=CREDIT_NANO, operator=name == OPERATOR)
        return path.read_bytes()


def prove_books(folder: Path) -> None:
    with SqliteBooks(folder / "gateway.db") as books:
        assert books.audit().problems == ()


def find_bytes(folder: Path, secret: str) -> list[str]:
    """List the files beside the configuration that contain a text, such as a secret."""
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


def _make_client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=50)
    )


def _close(gateway: Gateway) -> None:
    gateway.close()
