"""Each documented request is sent to a running gateway, which answers as the reference says.

`WRITE_REFERENCE=1 python -m pytest tests/extras/reference -m ""` writes what is seen then, and in the transcripts
of the console, to `static/seen.json`: read the diff.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from gateway.base.times import unix_ms
from gateway.dialects.wire.records import Json
from gateway.extension import find_extras
from gateway.extras.reference import document
from gateway.extras.reference.document import make_document, read_calls
from gateway.extras.reference.records import Route
from gateway.extras.reference.serving import list_routes
from gateway.extras.signins import totp
from gateway.extras.signins.sessions import SignInBook
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.server.serve import make_app
from tests.extras.cards.stripe_server import StripeServer, run_stripe
from tests.extras.console.kit import Console, open_console
from tests.extras.console.session import PASSWORD, STORED, seed_passwords
from tests.extras.console.test_played import SESSIONS, pick, play, stop_clocks
from tests.extras.reference.fits import IS_WHOLE, find_misfits
from tests.extras.reference.seen import Watch, write_seen
from tests.support.rows import told_together
from tests.support.served import HOLDER, OPERATOR, Reply

MODELS: Final = {
    "starcoder": 'kind = "completion"\nprice = { input = 1, output = 2 }',
    "text-embedding-3-small": 'kind = "embedding"\nprice = { input = 0.02 }',
    "gpt-image-1": 'kind = "image"\nprice_image = [{ size = "1024x1024", price = 0.01 }]',
    "rerank-v3.5": 'kind = "rerank"\nprice = { search_unit = 0.002 }',
    "tts-1": 'kind = "audio"\nprice = { input = 15 }',
    "whisper-1": 'kind = "audio"\nprice = { minute = 0.006 }',
}
MORE: Final = "\n".join(
    f'[models."{name}"]\nroutes = ["demo/{name}"]\n{terms}' for name, terms in MODELS.items()
)
ALERTS: Final = (
    "alerts" in find_extras() and '\n[alerts]\ncommand = ["true"]\nholder_webhooks = "public"\n'
)
NAMED: Final = re.compile(r"\$([A-Z_]+)")
PAGES: Final = re.compile(r"/$|/webhooks/|/console(?!/api/)")
NAMES: Final = {"alice": HOLDER}


class Player:
    """Sends the calls of calls.toml."""

    def __init__(self, console: Console, stripe: StripeServer, secret: str, watch: Watch) -> None:
        self.console, self.stripe, self.secret, self.watch = console, stripe, secret, watch
        self.kept: dict[str, str] = {}
        self.last: dict[str, Reply] = {}

    def fill(self, text: str) -> str:
        if "$LINK" in text:
            self.kept["LINK"] = self.console.make_link_token(HOLDER)
        if "$TOTP_CODE" in text:
            step = unix_ms() // totp.STEP_MS
            self.kept["TOTP_CODE"] = totp.compute_code(base64.b32decode(self.kept["TOTP"]), step)
        return NAMED.sub(lambda found: self.kept[found[1]], text)

    async def send(self, route: Route, call: Json) -> Reply:
        to = {name: quote(self.fill(value), safe="/") for name, value in call.get("to", {}).items()}
        path = route.path.format(**to) + (f"?{self.fill(call['query'])}" if "query" in call else "")
        body = None
        headers = {}
        if "body" in call:
            text = self.fill(json.dumps(call["body"]))
            for name, ours in NAMES.items():
                text = text.replace(f'"{name}"', f'"{ours}"')
            body, headers["Content-Type"] = text.encode(), "application/json"
            if '"@' in text:
                body, headers["Content-Type"] = make_form(call["body"])
        as_ = None
        if route.access == "key":
            headers["Authorization"] = f"Bearer {self.fill(call.get('key', self.secret))}"
        elif route.access != "open" or route.method == "DELETE":
            as_ = OPERATOR if OPERATOR in (route.access, call.get("cookie")) else HOLDER
            await self.console.sign_in(as_)  # anew, as what was sent before may have ended it
        if route.path.endswith("/receipt"):
            self.stripe.pay(next(iter(self.stripe.sessions)))
        key = document.is_idempotent(route, call) and f"{route.name}{call.get('body')}"
        reply = await self.console.ask(
            route.method, path, body, as_=as_, key=key or None, headers=headers
        )
        self.watch.note(route.method, path, body, reply)
        for name, where in call.get("keep", {}).items():
            header = where.startswith("@")
            self.kept[name] = str(reply.headers[where[1:]] if header else pick(reply.json, where))
        return reply

    async def send_all(self, routes: Mapping[str, Route]) -> None:
        """Send each call when what it needs is known."""
        waiting = {name: call for name, call in read_calls().items() if name in routes}
        while waiting:
            known = {*self.kept, "LINK"} | ({"TOTP_CODE"} if "TOTP" in self.kept else set())
            ready = {
                name: call
                for name, call in waiting.items()
                if {*NAMED.findall(json.dumps(call))} <= known
            }
            assert ready, waiting.keys()
            name, call = next(iter(ready.items()))
            del waiting[name]
            for more in call.get("also", ()):
                await self.send(routes[name], {"query": "", **more})
            self.last[name] = await self.send(routes[name], call)


def make_form(fields: Mapping[str, str]) -> tuple[bytes, str]:
    """Write a form, whose file is a second of silence."""
    samples = b"\0" * 32_000
    sound = b"RIFF" + (36 + len(samples)).to_bytes(4, "little") + b"WAVEfmt \x10\0\0\0\x01\0\x01\0"
    sound += (16_000).to_bytes(4, "little") + (32_000).to_bytes(4, "little") + b"\x02\0\x10\0"
    sound += b"data" + len(samples).to_bytes(4, "little") + samples
    parts = []
    for name, value in fields.items():
        file = value.removeprefix("@") if value.startswith("@") else ""
        head = f'--edge\r\nContent-Disposition: form-data; name="{name}"'
        head += f'; filename="{file}"\r\nContent-Type: audio/wav' if file else ""
        parts.append(f"{head}\r\n\r\n".encode() + (sound if file else value.encode()) + b"\r\n")
    return b"".join(parts) + b"--edge--\r\n", "multipart/form-data; boundary=edge"


def seed_people(books: SqliteBooks) -> None:
    seed_passwords(books)
    SignInBook(books).set_password(HOLDER, STORED, "erin")


@asynccontextmanager
async def open_player(folder: Path) -> AsyncIterator[tuple[Player, Mapping[str, Route]]]:
    async with (
        run_stripe() as stripe,
        open_console(
            folder, billing=stripe.billing, more=MORE + (ALERTS or ""), seed=seed_people
        ) as console,
    ):
        routes = {one.name: one for one in list_routes(console.gateway)}
        secret = await console.add_key(HOLDER)
        yield Player(console, stripe, secret, Watch(routes.values())), routes


async def test_each_documented_request_is_answered_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clocks(monkeypatch)
    assert PASSWORD in (document.STATIC / "calls.toml").read_text(encoding="utf-8")
    async with open_player(tmp_path) as (player, routes):
        player.watch.patch(monkeypatch)
        await player.send_all(routes)
        if "WRITE_REFERENCE" in os.environ:
            await watch_transcripts(tmp_path, monkeypatch, player.watch)
            write_seen(document.STATIC / "seen.json", player.watch)
        made = make_document(routes.values())
        with told_together() as row:
            for name, reply in player.last.items():
                with row(name):
                    assert find_misfits(made, routes[name], reply) == []


async def watch_transcripts(folder: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Watch what the console is asked in its transcripts, too."""
    ask = Console.send

    async def send(
        console: Console, method: str, path: str, body: Any = None, headers: Any = ()
    ) -> Reply:
        reply = await ask(console, method, path, body, headers)
        watch.note(method, path, body, reply)
        return reply

    monkeypatch.setattr(Console, "send", send)
    monkeypatch.delenv("WRITE_SESSION", raising=False)
    for number, (path, text) in enumerate(SESSIONS.values()):
        inner = folder / str(number)
        inner.mkdir()
        await play(inner, path, text)


async def test_no_route_is_missing(tmp_path: Path) -> None:
    """All that is served is told, with words and an example: but for pages, and what providers call."""
    async with open_player(tmp_path) as (player, routes):
        app = make_app(player.console.gateway)
        served = {
            f"{route.method} {resource.canonical}"
            for resource in app.router.resources()
            for route in resource
            if route.method not in {"*", "HEAD"} and not PAGES.match(resource.canonical)
        }
    assert served == routes.keys()
    assert routes.keys() <= read_calls().keys()
    if IS_WHOLE:
        assert routes.keys() == read_calls().keys()
