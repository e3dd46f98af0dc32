"""Every route of the console's API, as its contract has it, called by everyone (default deny)."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import quote, urlencode

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.extension import find_extras
from gateway.extras.console import dispatch  # noqa: F401 - it imports all handlers
from gateway.extras.console.additions import ScriptRole, find_additions
from gateway.extras.console.callers import API_HEADERS
from gateway.extras.console.routes import ROUTES, Route
from tests import ROOT
from tests.extras.console.kit import API, Console, open_console
from tests.support.rows import each_row, told_together
from tests.support.served import HOLDER, OPERATOR, OTHER, Reply

find_additions()  # makes the routes of others, whichever test comes first

on_one_loop: Final = pytest.mark.asyncio(loop_scope="module")
every_route: Final = each_row("route", ROUTES)

ADDING: Final = [name for name, extra in find_extras().items() if "console" in extra.adds_to]
CONTRACT: Final = [
    (ROOT / f"gateway/extras/{name}.md").read_text(encoding="utf-8")
    for name in ("console/console-api", *(f"{one}/{one}" for one in ADDING))
]
"""The console's own, and those of extras that add to it."""
OPERATORS: Final = [
    "accounts", "costs", "codes", "tokens", "providers", "refusals", "latency", "health", "audit",
    "alerts", "switches", "gateway", "refunds", "entries", "orders", "statement", "trends",
]  # fmt: skip
"""First path segments of operators' routes; all other routes are about one's own account."""
OPEN: Final = {
    ("POST", f"{API}/session"),
    ("POST", f"{API}/session/link"),
    ("DELETE", f"{API}/session"),
}

# ---- the contract --------------------------------------------------------------------------------


def list_told(text: str) -> list[tuple[str, str]]:
    return re.findall(
        r"\b(GET|POST|PATCH|DELETE)\b(?: \*\*\[I\]\*\*)?[ |]*`(/console/api/[^`? ]*)",
        text.partition("<!-- tokens -->")[0],
    )


def test_the_routes_are_those_of_the_contract() -> None:
    told = [one for text in CONTRACT for one in list_told(text)]
    assert {(route.method, route.path) for route in ROUTES} == set(told)
    assert len(ROUTES) == len(told)


NO_ROUTE: Final = "| route | operator | accounts | read |\n|---|---|---|---|"
"""The table of an extra whose routes are closed to tokens, which needs none."""


def describe_tokens(told: list[tuple[str, str]]) -> str:
    """The table of these routes, if tokens may call them, as the contract must have it."""
    roles = get_args(ScriptRole)
    lines = [f"| route | {' | '.join(roles)} |", "|---|" + "---|" * len(roles)]
    for route in sorted(ROUTES, key=lambda one: (one.path, one.method)):
        if route.tokens and (route.method, route.path) in told:
            cells = " | ".join("yes" if role in route.tokens else "" for role in roles)
            lines.append(f"| {route.method} `{route.path}` | {cells} |")
    return "\n".join(lines)


def test_the_tokens_of_each_route_are_those_of_the_contract() -> None:
    for text in CONTRACT:
        match = re.search(r"<!-- tokens -->\n(.*?)\n<!-- /tokens -->", text, re.DOTALL)
        assert (match[1] if match else NO_ROUTE) == describe_tokens(list_told(text))


@every_route
def test_roles_are_those_of_the_contract(route: Route) -> None:
    """Tokens reach what the operator manages, and no way to sign in."""
    subject = route.path.removeprefix(f"{API}/").split("/")[0].removesuffix(".csv")
    wanted = "operator" if subject in OPERATORS else "any"
    assert route.role == ("none" if (route.method, route.path) in OPEN else wanted)
    closed = {"tokens", "session", "sessions", "settings", "signin-link", "end-sessions"}
    if route.tokens:
        assert route.role == "operator" or route.path.endswith("/keys/{id}/revoke")
        assert not closed & {*route.path.split("/")}
        assert "operator" in route.tokens
    assert "read" not in route.tokens or route.method == "GET"


# ---- roles ---------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with open_console(tmp_path_factory.mktemp("console")) as console:
        yield console


def fill(path: str) -> str:
    """Fill a path with ids that do not exist."""
    return re.sub(r"\{\w+\}", "123456", path)


async def call(console: Console, route: Route, **more: Any) -> Reply:
    body: object = None if route.method == "GET" else {}
    return await console.ask(route.method, fill(route.path), body, key="once", **more)


@on_one_loop
@every_route
async def test_nobody_gets_nothing(shared: Console, route: Route) -> None:
    """A service key is no session. No reply is kept or framed; other methods are refused by name."""
    with shared.open_books() as books:
        secret = keys.add_key(books, OPERATOR).secret
    bearer = {"Authorization": f"Bearer {secret}", "x-api-key": secret}
    for reply in (await call(shared, route), await call(shared, route, headers=bearer)):
        if route.role == "none":
            assert reply.status in {400, 204}
        else:
            assert reply.refusal == (401, "not_signed_in", None)
        assert API_HEADERS.items() <= reply.headers.items()
        assert reply.headers["x-request-id"].startswith("req_")
    reply = await shared.ask("PUT", fill(route.path), {}, as_=OPERATOR)
    assert reply.refusal == (405, "method_not_allowed", None)
    allowed = reply.headers["Allow"].split(", ")
    assert route.method in allowed
    assert ("HEAD" in allowed) is ("GET" in allowed)


@on_one_loop
@every_route
async def test_operators_routes_do_not_exist_for_holders(shared: Console, route: Route) -> None:
    for name in (HOLDER, OTHER) if route.role == "operator" else ():
        reply = await call(shared, route, as_=name)
        assert reply.refusal == (404, "not_found", None)
        assert "operator" not in reply.error["message"]
    if route.role == "operator":
        reply = await call(shared, route, as_=OPERATOR)
        assert reply.status in {200, 400, 404, 409}
        assert reply.status != 404 or "{" in route.path or "by-name" in route.path
        if route.method == "GET":
            head = await shared.ask("HEAD", fill(route.path), as_=OPERATOR)
            assert (head.status, head.body) == (reply.status, b"")


@on_one_loop
@every_route
async def test_no_change_from_another_site(shared: Console, route: Route) -> None:
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": shared.root_url},
    ):
        if route.method != "GET":
            reply = await call(shared, route, as_=OPERATOR, headers=headers)
            assert reply.refusal == (403, "cross_site", None)


@on_one_loop
async def test_other_addresses(shared: Console) -> None:
    reply = await shared.get(f"{API}/nothing/here")
    assert reply.refusal == (404, "not_found", None)
    for path in ("/console", "/console/keys", "/console/static/app.js", "/console/x"):
        reply = await shared.post(path, {}, as_=OPERATOR)
        assert reply.refusal == (405, "method_not_allowed", None)
        assert reply.headers["Allow"] == "GET, HEAD"
        assert API_HEADERS.items() <= reply.headers.items()


async def test_bodies_that_are_not_read(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    """A form of another site cannot send JSON's type; slow and busy times are told as such."""
    path = f"{API}/keys"
    for headers in ({"Content-Type": "text/plain"}, {"Content-Encoding": "gzip"}):
        reply = await console.post(path, {}, headers=headers)
        assert reply.refusal == (415, "unsupported_media_type", None)

    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)

    monkeypatch.setattr("gateway.extras.console.bodies.BODY_SECONDS", 0.05)
    sent = {"Cookie": console.cookies[HOLDER], "Content-Type": "application/json"}
    async with console.web.post(console.root_url + path, data=trickle(), headers=sent) as slow:
        assert (slow.status, (await slow.json())["error"]["code"]) == (408, "too_slow")
    monkeypatch.setattr("gateway.extras.signins.hasher.MAX_PENDING", 0)
    for target, body in (
        (f"{API}/session", {"name": HOLDER, "password": "x"}),
        (f"{API}/settings/password", {"new_password": "another horse battery"}),
    ):
        assert (await console.post(target, body)).refusal == (503, "unavailable", None)
    monkeypatch.setattr(console.gateway, "draining", True)
    assert (await console.get(path)).refusal == (503, "unavailable", None)


# ---- limits of changes ---------------------------------------------------------------------------


async def test_a_holder_cannot_fill_the_disk_with_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes are limited, reading and operators are not. test_state.py has the true number."""
    monkeypatch.setattr("gateway.extras.console.state.MAX_CHANGES", 3)
    async with open_console(tmp_path) as console:
        for name, statuses in ((HOLDER, [200, 200, 429]), (OPERATOR, [200] * 5)):
            key = (await console.post(f"{API}/keys", {}, as_=name)).json["key"]["id"]
            path = f"{API}/keys/{key}"
            for number, status in enumerate(statuses):
                reply = await console.ask("PATCH", path, {"name": f"n{number}"}, as_=name)
                assert reply.status == status
                if status == 429:
                    assert reply.refusal == (429, "too_many_tries", None)
                    assert int(reply.headers["Retry-After"]) > 0
        assert (await console.get(f"{API}/keys")).json["keys"][0]["name"] == "n1"


# ---- nonsense ------------------------------------------------------------------------------------

ROUNDS: Final = 6
"""The number of rounds, each of which sends one request to every route."""
PLAIN_ROUNDS: Final = 2
"""The number of rounds in a plain run."""
SEEN: Final = ROOT / "gateway/extras/reference/static/seen.json"
READ: Final = json.loads(SEEN.read_text("utf-8"))["routes"] if SEEN.exists() else {}
"""The fields that each route reads, by its method and path."""
MAY_END_SESSIONS: Final = {"accounts", "session", "sessions", "settings"}
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 7, 2**63, 2**64, 10**30, 1.5, float("1e308")),
    *("", " ", "x", "0", "-5", "1e9", "9" * 40, "0.0000000001", "NaN", "١٢", "sk-ru-x"),
    *("2026-01-01", "2026-13-45", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00"),
    *("\ud800", "\0", "\u202e", "💸" * 200, "'; DROP TABLE accounts; --", "%", "<script>", "=1+1"),
    *([], [1], ["a"] * 500, {}, {"a": {"b": []}}),
)
WORDS: Final = tuple(value for value in VALUES if isinstance(value, str))


def make_path(route: Route, chance: random.Random, ids: Mapping[str, str]) -> str:
    def pick(_: re.Match[str]) -> str:
        known = [*ids.values(), "1", "01", "999", "-1", "9" * 30]
        return quote(chance.choice([*known, *WORDS]).encode(errors="surrogatepass"), safe="") or "x"

    path = re.sub(r"\{\w+\}", pick, route.path)
    names = [*READ.get(f"{route.method} {route.path}", {}).get("query", ()), "limit", "cursor"]
    wanted = chance.sample(names, chance.randrange(min(4, len(names) + 1)))
    query = [(name, chance.choice(WORDS).encode(errors="surrogatepass")) for name in wanted]
    return f"{path}?{urlencode(query)}"


def make_body(route: Route, chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.choice([b"[]", b"{", b"null", b'{"a":1,"a":2}', b"\xff", b"[" * 5000])
    if chance.random() < 0.3:
        return b"{}"  # many routes take that
    names = [*READ.get(f"{route.method} {route.path}", {}).get("body", ())]
    wanted = chance.sample(names, chance.randrange(len(names) + 1))
    wanted += ["extra"] * (chance.random() < 0.1)
    body = {name: chance.choice([*VALUES, "1", "a note", 3, 3600]) for name in wanted}
    return json.dumps(body, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


async def ask(console: Console, route: Route, chance: random.Random, ids: Mapping[str, str]) -> int:
    name = chance.choice([HOLDER, OTHER, OPERATOR])
    path = make_path(route, chance, ids)
    body = None if route.method == "GET" else make_body(route, chance)
    key = chance.choice([None, "k", str(chance.random())])
    reply = await console.ask(route.method, path, body, as_=name, key=key)
    assert reply.status < 500, (route.method, path, body, reply.body)
    if reply.status >= 400:
        assert reply.error["code"]
        assert reply.error["message"].endswith("."), reply.error
    if route.path.removeprefix(f"{API}/").split("/")[0] in MAY_END_SESSIONS:
        console.cookies.clear()
    return reply.status


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(0, PLAIN_ROUNDS), pytest.param(1, ROUNDS, marks=[pytest.mark.daily, pytest.mark.no_cover])],
)
async def test_nonsense_is_refused_and_moves_nothing(
    console: Console, seed: int, rounds: int
) -> None:
    chance, statuses = random.Random(seed), set()
    made = (await console.post(f"{API}/keys", {"name": "one"})).json["key"]
    ids = {"key": made["id"], "account": str(console.account_id(HOLDER))}
    with told_together() as row:
        for route in ROUTES * rounds:
            with row(f"{route.method} {route.path}, seed {seed}"):
                statuses.add(await ask(console, route, chance, ids))
    assert (await console.get(f"{API}/overview", as_=OPERATOR)).status == 200
    assert {200, 204, 400, 404} <= statuses
