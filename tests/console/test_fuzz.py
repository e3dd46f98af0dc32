"""Random requests to every route of the console's API, by everybody: no 500, no change of sums."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from gateway.console.api import ROUTES
from gateway.console.routes import Route
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console

ROUNDS: Final = 15
"""The number of rounds, each of which sends one request to every route."""
PLAIN_ROUNDS: Final = 5
"""The number of rounds in a plain run."""
MAY_END_SESSIONS: Final = {"accounts", "session", "sessions", "settings"}
FIELDS: Final = {
    "session": "name password",
    "link": "token",
    "password": "current_password new_password",
    "keys": "name cap expires models",
    "{id}": "name cap expires models operator concurrency requests_per_minute",
    "rotate": "grace_seconds",
    "redeem": "code",
    "accounts": "name operator credit note models tokens_per_minute",
    "credit": "amount note",
    "correct": "amount note request_id",
    "suspend": "reason",
    "codes": "amount count expires note",
    "void-batch": "batch",
}
"""Fields by the last part of a path. An unknown field is added at times."""
FILTERS: Final = [
    "limit",
    "cursor",
    "status",
    "by",
    "from",
    "to",
    "key",
    "model",
    "request_id",
    "kind",
    "search",
    "name",
    "batch",
]
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 7, 2**63, 2**64, 10**30, 1.5, float("1e308")),
    *("", " ", "x", "0", "-5", "1e9", "9" * 40, "0.0000000001", "NaN", "١٢", "sk-ru-x"),
    *("2026-01-01", "2026-13-45", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00"),
    *("\ud800", "\0", "\u202e", "💸" * 200, "'; DROP TABLE accounts; --", "%", "<script>", "=1+1"),
    *([], [1], ["a"] * 500, {}, {"a": {"b": []}}),
)
WORDS: Final = tuple(value for value in VALUES if isinstance(value, str))


def make_path(route: Route, chance: random.Random, ids: Mapping[str, str]) -> str:
    def fill(_: re.Match[str]) -> str:
        known = [*ids.values(), "1", "01", "999", "-1", "9" * 30]
        return quote(chance.choice([*known, *WORDS]).encode(errors="surrogatepass"), safe="") or "x"

    path = re.sub(r"\{\w+\}", fill, route.path)
    wanted = chance.sample(FILTERS, chance.randrange(4))
    query = [(name, chance.choice(WORDS).encode(errors="surrogatepass")) for name in wanted]
    return f"{path}?{urlencode(query)}"


def make_body(route: Route, chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.choice([b"[]", b"{", b"null", b'{"a":1,"a":2}', b"\xff", b"[" * 5000])
    if chance.random() < 0.3:
        return b"{}"  # many routes take that
    names = FIELDS.get(route.path.rpartition("/")[2], "").split()
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
    [(0, PLAIN_ROUNDS), *(pytest.param(seed, ROUNDS, marks=pytest.mark.slow) for seed in range(3))],
)
async def test_nonsense_is_refused_and_moves_nothing(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with open_console(tmp_path) as console:
        made = (await console.post(f"{API}/keys", {"name": "one"})).json["key"]
        codes = {"amount": "1", "count": 1}
        batch = (await console.post(f"{API}/codes", codes, as_=OPERATOR, key="b")).json["batch"]
        ids = {"key": made["id"], "batch": batch, "account": str(console.account_id(HOLDER))}
        statuses = [
            await ask(console, route, chance, ids) for _ in range(rounds) for route in ROUTES
        ]
        assert (await console.get(f"{API}/overview", as_=OPERATOR)).status == 200
    print({status: statuses.count(status) for status in sorted(set(statuses))})
    assert {200, 201, 204, 400, 404} <= set(statuses)
