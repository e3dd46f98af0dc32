"""A served gateway in a folder, with three accounts, for tests that look inside or need settings of their own.

    async with open_served(tmp_path, more=TOML) as served:
        reply = await served.complete(await served.add_key())

It runs in this process by default, which is quick. `start_served` runs `python -m gateway` instead, for
tests of logs, signals or the command line.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import socket
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy

from gateway.admin import keys
from gateway.api.state import Gateway, make_gateway
from gateway.base.money import NANO
from gateway.config.load import load_config
from gateway.ledger.opening import open_ledger
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.server.serve import make_app
from tests.support.process import GatewayProcess, free_port
from tests.support.waiting import POLL_SECONDS

HOLDER: Final = "holder"
OTHER: Final = "other"
OPERATOR: Final = "operator"
CREDIT_NANO: Final = 100 * NANO
"""The first balance of each of the three accounts."""
MODEL: Final = "demo/echo"

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
    """A reply, of which most are JSON."""

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
class Served:
    """A served gateway."""

    folder: Path
    port: int
    web: aiohttp.ClientSession
    inside: Gateway | None
    apart: GatewayProcess | None = None

    @property
    def gateway(self) -> Gateway:
        """Return the gateway of this process."""
        assert self.inside is not None, "it runs in another one"
        return self.inside

    @property
    def process(self) -> GatewayProcess:
        """Return the process that the gateway has to itself."""
        assert self.apart is not None, "it runs in this one"
        return self.apart

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

    def execute(self, statement: str, *values: object) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    async def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Reply:
        async with self.web.request(
            method, self.root_url + path, data=body, headers=headers, allow_redirects=False
        ) as response:
            return Reply(response.status, response.headers, await response.read())

    async def post_json(self, secret: str, path: str, body: object, **headers: str) -> Reply:
        """Send a request of a caller with a service key."""
        sent = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json", **headers}
        return await self.send("POST", path, json.dumps(body).encode(), sent)

    async def add_key(self, name: str = HOLDER) -> str:
        """Make a service key that is in force; return its secret."""
        with self.open_books() as books:
            secret = keys.add_key(books, name).secret
        headers = {"Authorization": f"Bearer {secret}"}
        # Another process reads its ledger by the next poll.
        while (await self.send("GET", "/v1/models", headers=headers)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)
        return secret

    async def complete(
        self, secret: str, words: str = "Hello!", *, model: str = MODEL, stream: bool = False
    ) -> Reply:
        """Ask for a chat completion with a service key."""
        body = {"model": model, "messages": [{"role": "user", "content": words}], "stream": stream}
        return await self.post_json(secret, "/v1/chat/completions", body)


@contextlib.asynccontextmanager
async def open_served(folder: Path, **prepared: Any) -> AsyncIterator[Served]:
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
            stack.callback(gateway.close)
            runner = web.AppRunner(make_app(gateway), access_log=None, auto_decompress=False)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, listener).start()
            session = await stack.enter_async_context(_make_client())
            yield Served(folder, port, session, gateway)
    prove_books(folder)


@contextlib.asynccontextmanager
async def start_served(folder: Path, **prepared: Any) -> AsyncIterator[Served]:
    """Start a gateway in its own process; at the end, check exit code, log and files.

    Add secrets that must appear nowhere to `served.process.canaries`.
    """
    process = GatewayProcess(folder, free_port())
    prepare(folder, process.port, **prepared)
    process.start()
    try:
        async with _make_client() as session:
            yield Served(folder, process.port, session, None, process)
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


def _make_client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=50)
    )
