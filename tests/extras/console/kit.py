"""Use the console like a script: a real gateway in a folder, people signed in, JSON in and out.

    async with open_console(tmp_path) as console:
        reply = await console.post("/console/api/keys", {"name": "laptop"}, as_=HOLDER)
        assert reply.status == 201, reply.json

The gateway runs in this process by default, which is quick. `start_console` runs
`python -m gateway` instead, for tests of logs, signals or the command line. An account is signed in
by a link when it makes its first request.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.extras.signins import signin
from tests.support.served import HOLDER, Reply, Served, open_served, start_served

API: Final = "/console/api"


@dataclass(slots=True)
class Console(Served):
    """A served gateway, with the sessions of the accounts that have made requests."""

    cookies: dict[str, str] = field(default_factory=dict, repr=False)
    """The session cookies, `name=value`, by account."""

    async def get(self, path: str, *, as_: str | None = HOLDER, **more: Any) -> Reply:
        return await self.ask("GET", path, as_=as_, **more)

    async def post(
        self, path: str, body: object = None, *, as_: str | None = HOLDER, **more: Any
    ) -> Reply:
        """Send a POST; `key` is the Idempotency-Key."""
        return await self.ask("POST", path, body, as_=as_, **more)

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
        return await self.send(method, path, data, sent)

    async def sign_in(self, name: str) -> Reply:
        """Sign in by a link from the operator; later requests with this `as_` use the session."""
        reply = await self.ask("POST", f"{API}/session/link", {"token": self.make_link_token(name)})
        assert reply.status == 200, reply.body
        self.cookies[name] = read_cookie(reply)
        return reply

    def make_link_token(self, name: str) -> str:
        with self.open_books() as books:
            return signin.make_signin_link(books, name).token


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


def use_console(one: Served) -> Console:
    return Console(one.folder, one.port, one.web, one.inside, one.apart)


@asynccontextmanager
async def open_console(folder: Path, **prepared: Any) -> AsyncIterator[Console]:
    """Open a gateway in this process; `prepared` is for `served.prepare`."""
    async with open_served(folder, **prepared) as one:
        yield use_console(one)


@asynccontextmanager
async def start_console(folder: Path, **prepared: Any) -> AsyncIterator[Console]:
    """Start a gateway in its own process."""
    async with start_served(folder, **prepared) as one:
        yield use_console(one)


def find_bytes(folder: Path, secret: str) -> list[str]:
    """List the files beside the configuration that contain a text, such as a secret."""
    return [
        path.name
        for path in sorted(folder.rglob("*"))
        if path.is_file() and secret.encode() in path.read_bytes()
    ]
