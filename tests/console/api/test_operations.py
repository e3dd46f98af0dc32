"""Providers and health for operators; none of it contains a secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import accounts
from gateway.apikeys import digest
from gateway.config.records import Reload
from gateway.ledger.sql.connection import Connection
from tests.admin.kit import add_key, get
from tests.console.kit import API, HOLDER, MODEL, OPERATOR, Console, open_console
from tests.ledger.kit import PRICE

LONG_KEY: Final = "upstream-secret-0123456789-wxyz"
SHORT_KEY: Final = "elevenchars"
MORE: Final = f"""
[providers.literal]
dialect = "chat"
base_url = "http://127.0.0.1:1/deep/v1"
api_key = "{LONG_KEY}"
max_concurrency = 7
headers = {{ "x-extra" = "extra-secret-0123456789" }}
[providers.short]
dialect = "messages"
base_url = "https://short.example.com:8443/v1"
api_key = "{SHORT_KEY}"
[models."literal/broken"]
routes = ["literal/broken"]
price = "free"
"""
STATE_FIELDS: Final = {"state", "state_text", "hour", "today", "last_failure"}
PROVIDER_FIELDS: Final = STATE_FIELDS | {"keys",
    "upstream_models", "name", "dialect", "origin", "key_last4", "on", "off_reason", "breaker", "breaker_seconds",
    "in_flight", "max_concurrency", "models",
}  # fmt: skip
LANE_FIELDS: Final = STATE_FIELDS | {
    "name", "on", "breaker", "breaker_seconds", "in_flight", "keys",
}  # fmt: skip
HEALTH_FIELDS: Final = {
    "node", "nodes", "version", "started", "uptime_seconds", "draining", "in_flight", "max_in_flight", "loop_lag_ms",
    "ledger_writable", "open_holds", "held", "held_nano", "database_bytes", "wal_bytes", "backup",
    "startup_check", "full_audit", "providers", "missing_usage", "errors", "reload",
}  # fmt: skip


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, more=MORE) as console:
        yield console


async def fail(console: Console, secret: str) -> str:
    """Send a request to an unreachable provider and return its id."""
    reply = await console.complete(secret, model="literal/broken")
    assert reply.status == 503
    return reply.headers["x-request-id"]


# ---- providers -----------------------------------------------------------------------------------


async def test_providers_are_shown_without_their_secrets(console: Console) -> None:
    listed = await get(console, f"{API}/providers")
    providers = {one["name"]: one for one in listed["providers"]}
    assert (listed["count"], list(providers)) == (4, ["demo", "vendor", "literal", "short"])
    assert [set(one) for one in providers.values()] == [PROVIDER_FIELDS] * 4
    told = {
        name: (one["dialect"], one["origin"], one["key_last4"], one["on"], one["off_reason"])
        for name, one in providers.items()
    }
    unset = "the environment variable NO_SUCH_API_KEY is not set"
    assert told == {
        "demo": ("demo", None, [], True, None),
        "vendor": ("chat", "https://api.example.com", [], False, unset),
        "literal": ("chat", "http://127.0.0.1:1", ["wxyz"], True, None),
        "short": ("messages", "https://short.example.com:8443", [None], True, None),
    }
    assert providers["demo"]["models"] == ["demo/echo", "vendor/large"]
    assert (providers["literal"]["max_concurrency"], providers["short"]["models"]) == (7, [])


async def test_breaker_is_shown_as_it_stands(console: Console) -> None:
    secret = await add_key(console)
    for _ in range(4):
        await fail(console, secret)
    assert await read_breakers(console) == [("closed", 0)] * 4
    await fail(console, secret)
    breakers = await read_breakers(console)
    assert breakers[:2] + breakers[3:] == [("closed", 0)] * 3
    state, seconds = breakers[2]
    assert (state, 25 <= seconds <= 30) == ("open", True)
    shown = (await get(console, f"{API}/health"))["providers"]
    assert [set(one) for one in shown] == [LANE_FIELDS] * 4
    assert shown[2]["breaker"] == "open"


async def read_breakers(console: Console) -> list[tuple[str, int]]:
    listed = await get(console, f"{API}/providers")
    return [(one["breaker"], one["breaker_seconds"]) for one in listed["providers"]]


# ---- health --------------------------------------------------------------------------------------


async def test_health_of_a_gateway_at_rest(console: Console) -> None:
    health = await get(console, f"{API}/health")
    assert set(health) == HEALTH_FIELDS
    assert (health["draining"], health["ledger_writable"], health["in_flight"]) == (False, True, 0)
    assert (health["open_holds"], health["held_nano"], health["held"]) == (0, 0, "0.00")
    assert health["database_bytes"] == console.database.stat().st_size
    assert isinstance(health["wal_bytes"], int)
    assert (health["backup"], health["errors"], health["max_in_flight"]) == (None, [], 1000)
    assert health["startup_check"] == {"ok": True, "at": health["started"]}
    assert 0 <= health["uptime_seconds"] < 60


async def test_the_last_reload_is_shown(console: Console) -> None:
    """With its error, and with what waits for a restart."""
    assert (await get(console, f"{API}/health"))["reload"] is None
    assert console.gateway is not None
    console.gateway.last_reload = Reload(0, False, "a typo", ("server.port",))
    assert (await get(console, f"{API}/health"))["reload"] == {
        "at": "1970-01-01T00:00:00.000Z",
        "ok": False,
        "words": "a typo",
        "restart_for": ["server.port"],
    }


async def test_nothing_is_read_or_changed_while_the_database_is_away(tmp_path: Path) -> None:
    """It would go into a file that has no name, and be lost."""
    aside = tmp_path / "aside"
    async with open_console(tmp_path) as console:
        path = f"{API}/accounts/{console.account_id(HOLDER)}"
        body = {"amount": "7", "note": "paid"}
        before = await get(console, path)
        console.database.rename(aside)
        for reply in (
            await console.post(f"{path}/credit", body, as_=OPERATOR, key="once"),
            await console.get(path, as_=OPERATOR),
        ):
            assert reply.refusal == (503, "unavailable", None)
            assert "removed or replaced" in reply.error["message"]
            assert str(tmp_path) not in reply.error["message"]
        aside.rename(console.database)
        assert await get(console, path) == before
        reply = await console.post(f"{path}/credit", body, as_=OPERATOR, key="once")
        assert reply.json["entry"]["balance_after"] == "107.00"


async def test_health_shows_what_failed_lately(console: Console) -> None:
    """Callers' errors and successful requests are not shown."""
    secret = await add_key(console)
    failed = [await fail(console, secret) for _ in range(2)]
    assert (await console.complete(secret)).status == 200
    assert (await console.complete(secret, model="no/such")).status == 400
    errors = (await get(console, f"{API}/health"))["errors"]
    assert [one["request_id"] for one in errors] == failed[::-1]
    told = {(one["status"], one["code"], one["provider"]) for one in errors}
    assert told == {(503, "upstream_unavailable", "literal")}


async def test_health_tells_which_providers_report_no_usage(console: Console) -> None:
    assert console.gateway is not None
    for now_ms in (1, 3_600_000, 7_200_000):
        console.gateway.missing_usages.note("vendor", MODEL, now_ms)
    console.gateway.missing_usages.note("demo", MODEL, 7_200_001)
    told = (await get(console, f"{API}/health"))["missing_usage"]
    assert [(one["provider"], one["replies"]) for one in told] == [("demo", 1), ("vendor", 3)]
    assert told[1]["last"] == "1970-01-01T02:00:00.000Z"


async def test_health_shows_open_holds(console: Console) -> None:
    secret = await add_key(console)
    assert console.gateway is not None
    key = console.gateway.ledger.find_key(digest(secret))
    assert key is not None
    with console.open_books() as books, books.changing() as connection:
        insert_pending(connection, key.account.id, key.id)
    health = await get(console, f"{API}/health")
    assert (health["open_holds"], health["held_nano"]) == (1, 77)
    with console.open_books() as books, books.changing() as connection:
        connection.execute("DROP TRIGGER requests_no_delete")
        connection.execute("DELETE FROM requests")


def insert_pending(connection: Connection, account_id: int, key_id: str) -> None:
    columns: dict[str, str | int] = {
        "id": "req_pending", "account_id": account_id, "key_id": key_id, "model": MODEL,
        "provider": "demo", "stream": 0, "hold_nano": 77, "state": "pending", "input_tokens": 0,
        "cached_input_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0,
        "output_tokens": 0, "price_id": PRICE.id, "cost_nano": 0, "estimated": 0,
        "outcome": "pending", "attempts": 0, "started_ms": 1,
    }  # fmt: skip
    marks = ", ".join("?" * len(columns))
    connection.execute("INSERT INTO prices VALUES (?, ?)", (PRICE.id, PRICE.text))
    connection.execute(
        f"INSERT INTO requests ({', '.join(columns)}) VALUES ({marks})", (*columns.values(),)
    )


async def test_health_knows_the_last_backup(console: Console, tmp_path: Path) -> None:
    with console.open_books() as books:
        accounts.back_up(books, tmp_path / "copy.db")
    health, log = (
        await get(console, f"{API}/health"),
        await get(console, f"{API}/audit/log?search=backup"),
    )
    assert health["backup"] == log["events"][0]["at"]


# ---- secrets -------------------------------------------------------------------------------------


async def test_no_reply_tells_a_key_or_a_hash(console: Console) -> None:
    """No reply to an operator contains a secret, after all actions that leave traces."""
    secret = await add_key(console)
    await fail(console, secret)
    link = await console.post(f"{API}/accounts/1/signin-link", as_=OPERATOR)
    token = link.json["url"].partition("=")[2]
    await console.post(f"{API}/session/link", {"token": token}, as_=None)
    new = {"new_password": "correct horse battery"}
    assert (await console.post(f"{API}/settings/password", new, as_=HOLDER)).status == 204
    await console.post(f"{API}/audit", as_=OPERATOR)
    with console.open_books() as books, books.reading() as connection:
        kept = [
            *connection.execute("SELECT hash FROM passwords"),
            *connection.execute("SELECT hex(digest) FROM keys"),
            *connection.execute("SELECT hex(digest) FROM sessions"),
        ]
    assert len(kept) >= 4
    secrets = [
        LONG_KEY, SHORT_KEY, "extra-secret", secret, token, new["new_password"],
        console.cookies[OPERATOR].partition("=")[2], *(one for (one,) in kept),
    ]  # fmt: skip
    paths = [
        "accounts", "accounts/1", "accounts/1/entries", "accounts/by-name?name=holder", "models",
        "providers", "health", "audit", "audit/log?limit=200", "session", "sessions", "keys",
        "codes", "activity", "billing", "usage", "overview",
    ]  # fmt: skip
    for path in paths:
        body = (await console.get(f"{API}/{path}", as_=OPERATOR)).body.decode().casefold()
        assert [one for one in secrets if one.casefold() in body] == [], path
