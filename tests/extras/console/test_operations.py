"""Health, providers, refusals, audit and the log of events for operators; no secret is in them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin.fields import name_process
from gateway.base.process import PROGRAM, UNKNOWN, find_commit, find_version
from gateway.config.records import Reload
from gateway.extras.observations.book import ObservationBook
from gateway.extras.operations import needs
from gateway.extras.operations.needs import list_needs
from gateway.extras.reports.ranks import RankBook
from gateway.extras.signins import signin
from gateway.ledger.opening import open_books
from gateway.ledger.records import AuditReport, DatabaseUrl
from tests import ROOT
from tests.extras.console.calls import Past, add_calls, end_call
from tests.extras.console.kit import API, Console, open_console, read_cookie
from tests.support.extras import need_extra
from tests.support.served import HOLDER, MODEL, OPERATOR, OTHER, Reply
from tests.support.waiting import until

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


@pytest.fixture
async def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Console]:
    """A gateway that writes its counts of calls and refusals at once."""
    monkeypatch.setattr("gateway.extras.observations.observer.WRITE_SECONDS", 0.02)
    async with open_console(tmp_path, more=MORE) as console:
        yield console


async def get(console: Console, path: str) -> Any:
    reply = await console.get(path, as_=OPERATOR)
    assert reply.status == 200, reply.body
    return reply.json


async def fail(console: Console, secret: str) -> str:
    """Send a request to an unreachable provider and return its id."""
    reply = await console.complete(secret, model="literal/broken")
    assert reply.status == 503
    return reply.headers["x-request-id"]


async def wait_counted(console: Console, *, calls: int = 0, refusals: int = 0) -> None:
    """Wait until so many calls to providers and refusals are written."""

    def are_counted() -> bool:
        with console.open_books() as books:
            seen = ObservationBook(books).read_upstream()
            refused = ObservationBook(books).read_refusals(None, 0)
        counted = (sum(one.today.calls for one in seen), sum(one.count for one in refused))
        return counted == (calls, refusals)

    await until(are_counted, "the counts")


# ---- providers and refusals ----------------------------------------------------------------------


async def read_providers(console: Console) -> dict[str, Any]:
    listed = await get(console, f"{API}/providers")
    assert listed["count"] == len(listed["providers"])
    return {one["name"]: one for one in listed["providers"]}


async def test_a_provider_whose_calls_all_fail_is_not_working(console: Console) -> None:
    """And rests from the fifth failure on; a probe is told only while it is in flight."""
    secret = await console.add_key()
    assert (await console.complete(secret)).status == 200
    failed = [await fail(console, secret) for _ in range(3)]
    await wait_counted(console, calls=4)
    providers = await read_providers(console)
    demo, literal = providers["demo"], providers["literal"]
    assert (demo["state"], demo["hour"]) == ("working", {"calls": 1, "failures": 0})
    assert literal["state_text"] == "failing (3 of 3 in its latest ten minutes)"
    assert (literal["breaker"], literal["breaker_seconds"]) == ("closed", 0)
    (model,) = literal["upstream_models"]
    assert (model["model"], model["state"]) == ("broken", "failing")
    failure = model["last_failure"]
    assert failure["request_id"] == failed[-1]
    assert failure["reason"] == "connect: Connection refused"
    assert failure["url"] == "http://127.0.0.1:1/deep/v1/chat/completions"
    failed += [await fail(console, secret) for _ in range(2)]
    literal = (await read_providers(console))["literal"]
    assert (literal["state"], literal["breaker"]) == ("resting", "open")
    assert 25 <= literal["breaker_seconds"] <= 30
    assert literal["upstream_models"][0]["state"] == "resting"
    shown = (await get(console, f"{API}/health"))["providers"]
    assert [one["state"] for one in shown] == ["working", "off", "resting", "not_asked"]
    provider = console.gateway.routes.providers["literal"]
    provider.enter("broken")
    assert (await read_providers(console))["literal"]["state_text"] == "being tried"
    provider.leave("broken", None)
    await wait_counted(console, calls=6)
    assert (await read_providers(console))["literal"]["state"] == "failing"
    assert (await console.complete(secret, model="no/such")).status == 400
    errors = (await get(console, f"{API}/health"))["errors"]
    assert [one["request_id"] for one in errors] == failed[::-1], "callers' errors are not shown"
    told = {(one["status"], one["code"], one["provider"]) for one in errors}
    assert told == {(503, "upstream_unavailable", "literal")}


async def test_refusals_are_shown_to_operators_and_to_their_holder(console: Console) -> None:
    secrets = [await console.add_key() for _ in range(2)]
    replies = [await console.complete(secret, model="no/such") for secret in secrets]
    ids = [one.headers["x-request-id"] for one in replies]
    await console.complete("sk-ru-" + "x" * 32)
    await wait_counted(console, refusals=3)
    listed = await get(console, f"{API}/refusals")
    assert listed["count"] == 3
    by_account = {one["account"]: one for one in listed["refusals"]}
    assert set(by_account) == {HOLDER, None}
    mine = by_account[HOLDER]
    assert (mine["code"], mine["model"], mine["count"]) == ("model_not_found", "", 2)
    assert mine["last_request_id"] == ids[1]
    latest = listed["latest"]
    # Ids of one millisecond are in no order.
    assert {one["request_id"]: one["model"] for one in latest} == dict.fromkeys(ids, "no/such")
    last = latest[0]
    url = f"{API}/activity/{last['request_id']}"
    assert await get(console, url) == (await console.get(url, as_=HOLDER)).json == last
    assert (await console.get(url, as_=OTHER)).refusal == (404, "not_found", None)
    chosen = await get(console, f"{API}/refusals?account={HOLDER}&period=today")
    assert chosen["refusals"] == [mine]
    nobody = await console.get(f"{API}/refusals?account=nobody", as_=OPERATOR)
    assert nobody.refusal == (404, "not_found", None)
    (today,) = (await console.get(f"{API}/overview")).json["refused_today"]
    labels = [{name: one[name] for name in ("key", "key_name", "key_display")} for one in latest]
    assert sorted(today.pop("keys"), key=str) == sorted(labels, key=str)
    assert all(one["key"] for one in labels)
    told = ("code", "model", "count", "last", "last_request_id")
    assert today == {name: mine[name] for name in told}
    assert (await get(console, f"{API}/overview"))["refused_today"] == [], "the operator's own"


# ---- health --------------------------------------------------------------------------------------


async def test_health_tells_what_happened(console: Console, tmp_path: Path) -> None:
    """The last reload and backup, replies without usage, open holds."""
    console.gateway.last_reload = Reload(0, False, "a typo", ("server.port",))
    for now_ms in (1, 3_600_000, 7_200_000):
        console.gateway.missing_usages.note("vendor", MODEL, now_ms)
    console.gateway.missing_usages.note("demo", MODEL, 7_200_001)
    await console.add_key()
    with console.open_books() as books:
        books.back_up(tmp_path / "copy.db")
        key_id = books.keys.read_all(HOLDER)[0].id
    account_id, pending = console.account_id(HOLDER), Past(key_id, 1, None)
    (request_id,) = add_calls(console.database, account_id, [pending])
    health = await get(console, f"{API}/health")
    assert health["reload"] == {
        "at": "1970-01-01T00:00:00.000Z", "ok": False, "words": "a typo",
        "restart_for": ["server.port"],
    }  # fmt: skip
    assert health["missing_usage"] == [
        {"provider": "demo", "model": MODEL, "replies": 1, "last": "1970-01-01T02:00:00.001Z"},
        {"provider": "vendor", "model": MODEL, "replies": 3, "last": "1970-01-01T02:00:00.000Z"},
    ]
    (event,) = (await get(console, f"{API}/audit/log?search=backup"))["events"]
    assert health["backup"] == event["at"]
    assert (health["open_holds"], health["held_nano"]) == (1, 1000)
    assert health["database_bytes"] == console.database.stat().st_size
    assert isinstance(health["wal_bytes"], int)
    assert health["startup_check"]["at"] == health["started"]
    assert 0 <= health["uptime_seconds"] < 60
    end_call(console.database, account_id, request_id, Past(key_id, 1, 2))


async def test_what_needs_doing_is_told_the_most_urgent_first(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, gateway = await console.add_key(), console.gateway
    for _ in range(3):
        await fail(console, secret)
    await wait_counted(console, calls=3)
    gateway.last_reload = Reload(0, False, "a typo", ())
    gateway.routes.providers["literal"].keys[0].problem = "no answer"
    off = {MODEL: replace(gateway.config.models[MODEL], off="maintenance")}
    doubts = ("its price is below its cost", "a price is odd")
    losses = [(MODEL, "literal", doubts[0])] * 2
    monkeypatch.setattr(needs, "find_added", lambda _: [lambda _: losses])
    gateway.config = replace(gateway.config, doubts=doubts, models={**gateway.config.models, **off})
    monkeypatch.setattr(type(gateway.ledger), "writable", False)
    with console.open_books() as books:
        books.entries.correct(OTHER, -(10**12), note="all")
        told = list(
            list_needs(
                books,
                gateway,
                AuditReport(ok=False),
                overdrawn=RankBook(books).find_overdrawn(),
                uncosted=["large"],
            )
        )
    assert [(one.code, *one.names) for one in told] == [
        ("audit_failed",), ("ledger_unwritable",), ("reload_refused",),
        ("provider_failing", "literal"), ("key_not_renewed", "literal"),
        ("switched_off", MODEL), ("overdrawn", OTHER), ("cost_unknown", "large"), ("backup_old",), ("sold_below_cost", MODEL), ("config_doubt",),
    ]  # fmt: skip
    words = [f"{MODEL} is sold below its cost at literal.", "a price is odd"]
    assert [one.message for one in told[-2:]] == words


def test_each_need_leads_to_the_page_where_it_is_done() -> None:
    """But for doubts about the configuration, which is done in gateway.toml."""
    codes = set(re.findall(r'Need\("(\w+)"', Path(needs.__file__).read_text("utf-8")))
    static = ROOT / "gateway/extras/console/static"
    place = re.compile(r'^  (\w+): \["[^"]+", "(/console/\w+)', re.MULTILINE)
    places = dict(place.findall((static / "gateway.js").read_text("utf-8")))
    assert codes - places.keys() == {"config_doubt"}
    assert places["sold_below_cost"] == places["cost_unknown"] == "/console/costs"
    pages = re.findall(
        r'^  \["(/console/\w+)"', (static / "app.js").read_text("utf-8"), re.MULTILINE
    )
    assert set(places.values()) <= set(pages)


async def test_what_is_on_disk_and_not_in_force_needs_doing(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = console.gateway
    path, version, commit = gateway.read.path, find_version(), find_commit()
    text = path.read_text()

    async def find_due() -> list[tuple[str, str]]:
        told = (await get(console, f"{API}/gateway"))["needs"]
        return [(one["code"], one["message"]) for one in told if one["code"].endswith("_due")]

    path.write_text(text)  # written again, and the same
    assert await find_due() == []
    path.write_text(f"{text}\n# changed")
    [(code, words)] = await find_due()
    assert (code, words.endswith(f"To read it, type: {PROGRAM} reload")) == ("reload_due", True)
    gateway.last_reload = Reload(0, False, "a typo", ("server.port",))  # which is told by itself
    settings = "restart_due", "A restart is needed for the new values of server.port."
    assert await find_due() == [settings]
    path.unlink()
    gateway.last_reload = None
    os.mkfifo(path)  # a pipe has nothing to compare, and to read it would wait for a writer
    for installed, told in (
        ((version, commit), []),
        (("99.1", commit), [f"Version 99.1 is installed. Restart the gateway to run it: this is {version}."]),
        ((version, "99abcdef99"), [f"Commit 99abcdef99 is installed. Restart the gateway to run it: this is {commit or 'older'}."]),
        ((UNKNOWN, ""), []),
    ):  # fmt: skip
        monkeypatch.setattr(needs, "find_installed", lambda installed=installed: installed)
        assert await find_due() == [("restart_due", one) for one in told]


async def test_nothing_is_read_or_changed_while_the_database_is_away(
    console: Console, tmp_path: Path
) -> None:
    """It would go into a file that has no name, and be lost."""
    aside = tmp_path / "aside"
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


@pytest.mark.slow
@need_extra("postgres")
async def test_operators_see_the_gateways(tmp_path: Path, postgres_url: str) -> None:
    from gateway.extras.postgres.nodes import register
    from gateway.extras.postgres.schema import open_session

    mine = name_process(os.getpid())
    with open_books(DatabaseUrl(postgres_url), create=True) as books:
        books.accounts.create(OPERATOR, operator=True)
        token = signin.make_signin_link(books, OPERATOR).token
    async with open_console(tmp_path, more=f'[storage]\nurl = "{postgres_url}"') as console:
        reply = await console.ask("POST", f"{API}/session/link", {"token": token})
        console.cookies[OPERATOR] = read_cookie(reply)
        health = await get(console, f"{API}/health")
        assert health["node"] == mine
        (node,) = health["nodes"]
        assert (node["name"], node["version"]) == (mine, find_version())
        assert node["since"] <= node["seen"]
        with closing(open_session(postgres_url)) as session:
            register(session)
        assert len((await get(console, f"{API}/health"))["nodes"]) == 2
        assert (await get(console, f"{API}/providers"))["node"] == mine


# ---- audit ---------------------------------------------------------------------------------------


async def test_audits_run_one_at_a_time_and_beside_all_else(console: Console) -> None:
    """An audit that waits for the database delays neither the console nor callers."""
    models = {"Authorization": f"Bearer {await console.add_key()}"}
    await console.sign_in(OPERATOR)
    replies: asyncio.Queue[Reply] = asyncio.Queue()

    async def ask() -> None:
        replies.put_nowait(await console.post(f"{API}/audit", as_=OPERATOR))

    with console.open_books() as books:
        books.entries.credit(HOLDER, 1, note="something new to prove")
        async with asyncio.TaskGroup() as group:
            with books.changing():  # so that the checkpoint cannot be written
                for _ in range(3):
                    group.create_task(ask())
                refused = [await replies.get() for _ in range(2)]
                assert {one.refusal for one in refused} == {(409, "audit_running", None)}
                assert (await console.get(f"{API}/accounts", as_=OPERATOR)).status == 200
                assert (await console.ask("GET", "/v1/models", headers=models)).status == 200
            first = await replies.get()
    assert (first.status, first.json["ok"]) == (200, True)
    assert (await console.post(f"{API}/audit", as_=OPERATOR)).status == 200


# ---- the log -------------------------------------------------------------------------------------


async def test_no_reply_tells_a_key_or_a_hash(console: Console) -> None:
    """No reply to an operator contains a secret, after all actions that leave traces."""
    secret = await console.add_key()
    await fail(console, secret)
    link = await console.post(f"{API}/accounts/1/signin-link", as_=OPERATOR)
    token = link.json["url"].partition("=")[2]
    await console.post(f"{API}/session/link", {"token": token}, as_=None)
    new = {"new_password": "correct horse battery"}
    assert (await console.post(f"{API}/settings/password", new)).status == 204
    await console.post(f"{API}/audit", as_=OPERATOR)
    kept = [
        one
        for columns in ("hash FROM passwords", "hex(digest) FROM keys", "hex(digest) FROM sessions")
        for (one,) in console.execute(f"SELECT {columns}")
    ]
    assert len(kept) >= 4
    secrets = [
        LONG_KEY, SHORT_KEY, "extra-secret", secret, token, new["new_password"],
        console.cookies[OPERATOR].partition("=")[2], *kept,
    ]  # fmt: skip
    for path in (
        "accounts", "accounts/1", "accounts/1/entries", "accounts/by-name?name=holder", "models",
        "providers", "health", "audit", "audit/log?limit=200", "session", "sessions", "keys",
        "codes", "activity", "billing", "usage", "overview",
    ):  # fmt: skip
        body = (await console.get(f"{API}/{path}", as_=OPERATOR)).body.decode().casefold()
        assert [one for one in secrets if one.casefold() in body] == [], path


# ---- latency -------------------------------------------------------------------------------------


async def test_latencies_are_told_by_provider_account_and_day(console: Console) -> None:
    """Only complete replies count: a failure has no time."""
    secret = await console.add_key()
    for _ in range(2):
        assert (await console.complete(secret)).status == 200
    await fail(console, secret)
    await wait_counted(console, calls=3)
    told = await get(console, f"{API}/latency")
    (row,) = told["rows"]
    assert (row["provider"], row["hour"]["calls"], row["day"]["calls"]) == ("demo", 2, 2)
    assert 0 < row["day"]["total_p50_ms"] <= row["day"]["total_p95_ms"]
    assert row["hour"] == row["day"] == told["totals"]["day"]
    by_account = await get(console, f"{API}/latency?by=account&account={HOLDER}")
    assert [one["account"] for one in by_account["rows"]] == [HOLDER]
    assert by_account["totals"] == told["totals"]
    assert (await get(console, f"{API}/latency?by=account&account={OTHER}"))["rows"] == []
    of_one = await console.get(f"{API}/latency?by=provider&account={HOLDER}", as_=OPERATOR)
    assert of_one.refusal == (400, "invalid_field", "account")
    past = await get(console, f"{API}/latency?day=2026-01-01")
    nothing = {"calls": 0, **dict.fromkeys(list(row["day"])[1:])}
    assert (past["day"], past["rows"][0]["day"]) == ("2026-01-01", nothing)
    assert past["rows"][0]["hour"] == row["hour"]
    overview = await get(console, f"{API}/gateway")
    for period in overview["periods"].values():
        assert period["latency"] == row["day"]
