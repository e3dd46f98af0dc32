"""The console as scripts use it: a real gateway in a folder, people signed in, JSON in and out.

    async with open_console(tmp_path) as console:
        reply = await console.post("/console/api/keys", {"name": "laptop"}, as_=HOLDER)
        assert reply.status == 201, reply.json

In this process by default, which is quick; `start_console` runs `python -m gateway` instead, where
logs, signals or the command line matter. Whoever asks is signed in when first needed, by a link.
"""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDictProxy
from support.process import GatewayProcess, free_port

from gateway import accounts, signin
from gateway.app import make_app, make_gateway
from gateway.config import load_config
from gateway.ledger.books import Books
from gateway.ledger.sqlite import SqliteLedger
from gateway.money import NANO
from gateway.state import Gateway

HOLDER: Final = "holder"
OTHER: Final = "other"
OPERATOR: Final = "operator"
CREDIT_NANO: Final = 100 * NANO
"""What each of the three accounts starts with."""
MODEL: Final = "demo/echo"
API: Final = "/console/api"

CONFIG: Final = """
[server]
port = {port}
{server}
[billing]
currency = "USD"
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
[models."vendor/large"]
routes = ["vendor/large", "demo/echo"]
price = {{ input = 1, cached_input = 0.5, output = 2 }}
[models."vendor/off"]
routes = ["vendor/off"]
price = {{ input = 1, output = 2 }}
{more}
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a refusal."""
        assert self.status >= 400, self.body
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def refusal(self) -> tuple[int, str, str | None]:
        """Status, code and field: what most tests ask of an error."""
        return self.status, self.error["code"], self.error.get("field")


@dataclass(slots=True)
class Console:
    """A served gateway and the sessions of those who asked it something."""

    folder: Path
    port: int
    web: aiohttp.ClientSession
    gateway: Gateway | None
    """Of this process; None when it is served by another one."""
    process: GatewayProcess | None = None
    cookies: dict[str, str] = field(default_factory=dict, repr=False)
    """The session cookie, `name=value`, by account."""

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        return self.folder / "gateway.db"

    def open_books(self) -> Books:
        """The database by a connection of its own, as the command line opens it."""
        return accounts.open_books(self.database)

    def account_id(self, name: str) -> int:
        with self.open_books() as books:
            return books.account(name).id

    async def get(
        self, path: str, *, as_: str | None = HOLDER, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.ask("GET", path, as_=as_, headers=headers)

    async def post(
        self,
        path: str,
        body: object = None,
        *,
        as_: str | None = HOLDER,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """`key` is the Idempotency-Key."""
        return await self.ask("POST", path, body, as_=as_, key=key, headers=headers)

    async def patch(
        self,
        path: str,
        body: object,
        *,
        as_: str | None = HOLDER,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        return await self.ask("PATCH", path, body, as_=as_, headers=headers)

    async def delete(
        self, path: str, *, as_: str | None = HOLDER, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.ask("DELETE", path, as_=as_, headers=headers)

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
        """One request as the page sends it; `headers` are added last and may override any.

        A body of bytes is sent as it is; an `as_` of None is nobody.
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
        """By a link of the operator's; its session is what `as_` means from now on."""
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
        """A chat completion with a service key."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": words}],
            "stream": stream,
        }
        return await self.ask(
            "POST",
            "/v1/chat/completions",
            body,
            headers={"Authorization": f"Bearer {secret}"},
        )


def read_cookie(reply: Reply) -> str:
    """`name=value` of the cookie that a reply sets."""
    return reply.headers["Set-Cookie"].partition(";")[0]


@contextlib.asynccontextmanager
async def open_console(
    folder: Path,
    *,
    server: str = "",
    billing: str = "",
    more: str = "",
    seed: Callable[[Books], object] | None = None,
) -> AsyncIterator[Console]:
    """A gateway in this process, its books proved at the end.

    `server`, `billing` and `more` are lines for gateway.toml; `seed` acts before it starts.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        prepare(folder, port, server=server, billing=billing, more=more, seed=seed)
        config = load_config(folder / "gateway.toml", {})
        async with contextlib.AsyncExitStack() as stack:
            ledger = await stack.enter_async_context(SqliteLedger.open(config.storage.path))
            gateway = make_gateway(config, ledger, lambda _call, _status: None)
            stack.callback(_close, gateway)
            runner = web.AppRunner(make_app(gateway), access_log=None, auto_decompress=False)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.SockSite(runner, listener).start()
            session = await stack.enter_async_context(_make_client())
            yield Console(folder, port, session, gateway)
    prove_books(folder)


@contextlib.asynccontextmanager
async def start_console(
    folder: Path,
    *,
    server: str = "",
    billing: str = "",
    more: str = "",
    seed: Callable[[Books], object] | None = None,
) -> AsyncIterator[Console]:
    """The same in a process of its own; stopping it proves exit 0, no traceback and no secret.

    Put what must appear nowhere into `console.process.canaries`.
    """
    process = GatewayProcess(folder, free_port())
    prepare(folder, process.port, server=server, billing=billing, more=more, seed=seed)
    process.start()
    try:
        async with _make_client() as session:
            yield Console(folder, process.port, session, None, process)
        process.stop()
    finally:
        if process.process is not None and process.process.poll() is None:
            process.process.kill()
            process.process.wait()
    prove_books(folder)


def prepare(
    folder: Path,
    port: int,
    *,
    server: str = "",
    billing: str = "",
    more: str = "",
    seed: Callable[[Books], object] | None = None,
) -> None:
    """gateway.toml, and a database with the three accounts."""
    text = CONFIG.format(port=port, server=server, billing=billing, more=more)
    (folder / "gateway.toml").write_text(text, encoding="utf-8")
    path = make_database(folder)
    if seed is not None:
        with accounts.open_books(path) as books:
            seed(books)


def make_database(folder: Path) -> Path:
    """Made once and then copied: a database costs a dozen fsyncs."""
    path = folder / "gateway.db"
    path.write_bytes(_make_database())
    return path


@functools.cache
def _make_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.db"
        with accounts.open_books(path, create=True) as books:
            for name in (HOLDER, OTHER, OPERATOR):
                accounts.add_account(
                    books, name, credit_nano=CREDIT_NANO, operator=name == OPERATOR
                )
        return path.read_bytes()


def prove_books(folder: Path) -> None:
    with accounts.open_books(folder / "gateway.db") as books:
        assert accounts.audit(books).problems == ()


def find_bytes(folder: Path, secret: str) -> list[str]:
    """The files beside the configuration that a text stands in: for secrets, none."""
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]


def _make_client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(total=20)
    )


def _close(gateway: Gateway) -> None:
    gateway.watch.close()
    gateway.routes.close()
