"""The overview, and requests in a list and one by one: one's own, or for operators all accounts'."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway import ids
from gateway.admin import keys
from gateway.console import overview, usage
from gateway.ledger.call_records import OUTCOME_WORDS
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import count_days_left
from gateway.money import NANO
from gateway.times import DAY_MS, format_iso
from tests.console.calls import SUMS, Past, add_calls
from tests.console.history import open_history, read_csv
from tests.console.kit import (
    API,
    CREDIT_NANO,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    open_console,
    read_pages,
)
from tests.ledger.contract.kit import admission, settlement
from tests.support.rows import each_row

on_one_loop = pytest.mark.asyncio(loop_scope="module")

# ---- requests ------------------------------------------------------------------------------------


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def history(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with open_history(tmp_path_factory.mktemp("history")) as console:
        yield console


async def list_calls(console: Console, query: str, as_: str = HOLDER) -> Any:
    reply = await console.get(f"{API}/activity?{query}", as_=as_)
    assert reply.status == 200, reply.body
    return reply.json


@on_one_loop
async def test_odd_filters_find_nothing(history: Console) -> None:
    for sent in ("%00", "%FF", "%ED%A0%80", "%22", "'", "x" * 2000):
        for name in ("request_id", "key", "model"):
            listed = await list_calls(history, f"{name}={sent}")
            assert (listed["count"], listed["calls"]) == (0, [])


@on_one_loop
async def test_operators_see_the_calls_of_all_accounts_and_holders_their_own(
    history: Console,
) -> None:
    own, theirs, everything = [
        await list_calls(history, "limit=1", name) for name in (HOLDER, OTHER, OPERATOR)
    ]
    assert everything["count"] == own["count"] + theirs["count"]
    (call,) = theirs["calls"]
    for name, count in ((HOLDER, own["count"]), (OTHER, theirs["count"]), (OPERATOR, 0)):
        query = f"account={name}&limit=200"
        listed = await list_calls(history, query, OPERATOR)
        assert listed["count"] == count
        assert {one["account"] for one in listed["calls"]} == ({name} if count else set())
        rows = read_csv(await history.get(f"{API}/activity.csv?{query}", as_=OPERATOR))
        assert len(rows) == count
    rows = read_csv(await history.get(f"{API}/activity.csv", as_=OPERATOR))
    assert {row["account"] for row in rows} == {HOLDER, OTHER}
    for name in (OTHER, "nobody"):
        listed = await list_calls(history, f"account={name}")
        assert {one["account"] for one in listed["calls"]} == {HOLDER}
    for query in (f"request_id={call['request_id']}", f"key={call['key']}"):
        assert (await list_calls(history, query))["count"] == 0
        assert (await list_calls(history, query, OTHER))["count"] == 1
        assert read_csv(await history.get(f"{API}/activity.csv?{query}")) == []


@on_one_loop
async def test_outcomes_have_one_name_in_list_and_filter(history: Console) -> None:
    listed = await list_calls(history, "outcome=complete&status=200&limit=1")
    assert list(listed["outcomes"]) == ["failed", *OUTCOME_WORDS]
    (call,) = listed["calls"]
    assert call["outcome_label"] == listed["outcomes"]["complete"] == "done"
    for nothing in ("outcome=failed", "provider=none", "slower_than=3600"):
        assert (await list_calls(history, nothing))["count"] == 0


@on_one_loop
async def test_the_slowest_calls_come_first(history: Console) -> None:
    """On one page, of the last 7 days unless others are chosen."""
    key = (await list_calls(history, "limit=1"))["calls"][0]["key"]
    for query in ("model=demo/echo", f"key={key}", "provider=demo&to=2024-10-02"):
        chosen = f"{query}&from=2024-09-01"
        calls = await read_pages(history, f"{API}/activity?{chosen}&limit=200", "calls")
        slowest = await list_calls(history, f"{chosen}&sort=slowest&limit=5")
        assert slowest["calls"] == sorted(calls, key=lambda one: one["total_ms"])[:-6:-1]
        assert (slowest["count"], slowest["next_cursor"]) == (len(calls), None)
    assert (await list_calls(history, "sort=slowest"))["calls"] == []


@on_one_loop
async def test_slow_calls_are_looked_for_in_parts(
    history: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No index knows how long calls took, so a page looks at so many and the next one at older ones."""
    monkeypatch.setattr(usage, "SLOW_CALLS", 20)
    chosen = "from=2020-01-01"
    calls = await read_pages(history, f"{API}/activity?{chosen}&limit=200", "calls")
    assert len(calls) > 40
    for slow in ("sort=slowest", "slower_than=1"):
        url = f"{API}/activity?{chosen}&{slow}"
        found = await read_pages(history, url, "calls")
        expected = [one for one in calls if "sort" in slow or one["total_ms"] > 1000]
        assert {one["request_id"] for one in found} == {one["request_id"] for one in expected}
        first = (await history.get(url)).json
        assert (first["count"], first["looked_since"]) == (None, calls[19]["started"])
        rows = read_csv(await history.get(f"{API}/activity.csv?{chosen}&{slow}"))
        assert [row["request_id"] for row in rows] == [one["request_id"] for one in expected]
    assert (await list_calls(history, f"{chosen}&sort=slowest&limit=2"))["calls"] == sorted(
        calls[:20], key=lambda one: one["total_ms"]
    )[:-3:-1]


@on_one_loop
async def test_a_call_is_shown_to_its_holder_and_to_operators(history: Console) -> None:
    (theirs,) = (await list_calls(history, "", OTHER))["calls"]
    url = f"{API}/activity/{theirs['request_id']}"
    told = (await history.get(url, as_=OTHER)).json
    assert (await history.get(url, as_=OPERATOR)).json == {**told, "failures": []}
    for name in ("request_id", "account", "key", "key_display", "cost_nano", "started", "ended"):
        assert told[name] == theirs[name], name
    assert (told["explanation"], told["ended_by"]) == ("The reply is complete.", "upstream")
    assert told["tokens"].startswith("input ")
    assert told["corrections"] == []
    for path, who in ((url, HOLDER), (f"{API}/activity/req_none", OPERATOR)):
        assert (await history.get(path, as_=who)).refusal == (404, "not_found", None)
    assert (await history.get(url, as_=None)).status == 401


async def test_a_receipt_of_the_console_is_that_of_the_api(console: Console) -> None:
    """Whoever made the call gets the same figures with the key alone."""
    secret = (await console.post(f"{API}/keys", {"name": "laptop"})).json["secret"]
    request_id = (await console.complete(secret)).headers["x-request-id"]
    headers = {"Authorization": f"Bearer {secret}"}
    receipt = (await console.get(f"/v1/receipts/{request_id}", as_=None, headers=headers)).json
    told = (await console.get(f"{API}/activity/{request_id}")).json
    assert {name: told[name] for name in receipt} == receipt
    assert set(told) - set(receipt) == {"account", "key", "key_name", "key_display"}


# ---- the overview --------------------------------------------------------------------------------


def add(days: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(day[name] for day in days) for name in SUMS}


async def get_overview(console: Console) -> Any:
    reply = await console.get(f"{API}/overview")
    assert reply.status == 200, reply.body
    return reply.json


async def test_an_overview_of_nothing(console: Console) -> None:
    """A new account has no holds, 30 days of zeros, and notices that say what to do first."""
    view = await get_overview(console)
    days = view.pop("days")
    assert len(days) == 30
    assert [day["day"] for day in days] == sorted(day["day"] for day in days)
    assert add(days) == dict.fromkeys(SUMS, 0)
    (notice,) = view.pop("notices")
    assert notice["code"] == "no_password"
    for name in ("held", "spent_today", "spent_7d", "spent_30d"):
        assert (view.pop(name), view.pop(f"{name}_nano")) == ("0.00", 0)
    assert view == {
        "balance": "100.00", "balance_nano": CREDIT_NANO, "available": "100.00",
        "available_nano": CREDIT_NANO, "currency": "USD", "days_left": None, "refused_today": [],
        "calls": [], "keys": 0, "first_key": False, "first_call": False,
    }  # fmt: skip


async def test_an_overview_adds_up(console: Console) -> None:
    """The sums of today, 7 and 30 days include today and equal the sums of their days."""
    with console.open_books() as books:
        key_id = keys.add_key(books, HOLDER).key.id
        books.keys.revoke(keys.add_key(books, HOLDER).key.id)
        now_ms = books.clock()
    calls = [
        Past(key_id, now_ms - ago * DAY_MS - 5, now_ms - ago * DAY_MS, cost_nano=cost)
        for ago, cost in {0: 7 * NANO, 1: 10, 6: 100, 7: 1000, 29: 10_000, 30: 100_000}.items()
    ]
    add_calls(console.database, console.account_id(HOLDER), calls * 2)
    view = await get_overview(console)
    usage = (await console.get(f"{API}/usage")).json
    assert view["spent_today_nano"] == 14 * NANO
    assert view["spent_7d_nano"] == 14 * NANO + 220
    assert view["spent_30d_nano"] == 14 * NANO + 22_220
    assert add(view["days"]) == {name: usage["totals"][name] for name in SUMS}
    assert [day for day in view["days"] if day["requests"]] == usage["rows"]
    assert view["balance_nano"] == CREDIT_NANO - 14 * NANO - 222_220
    assert view["days_left"] == view["available_nano"] * 7 // view["spent_7d_nano"] == 42
    assert view["calls"] == (await list_calls(console, "limit=10"))["calls"]
    assert len(view["calls"]) == 10
    assert (view["keys"], view["first_key"], view["first_call"]) == (1, True, True)


async def test_operators_give_back_what_a_call_cost(console: Console) -> None:
    with console.open_books() as books:
        key_id = keys.add_key(books, HOLDER).key.id
        now_ms = books.clock()
    (id_,) = add_calls(console.database, console.account_id(HOLDER), [Past(key_id, now_ms, now_ms)])
    body = {"request_id": id_, "note": "cut off"}
    assert (await console.post(f"{API}/refunds", body, key="own")).status == 404
    for amount, status in (("0.00000008", 400), ("0.00000007", 200)):
        reply = await console.post(
            f"{API}/refunds", {**body, "amount": amount}, as_=OPERATOR, key=amount
        )
        assert reply.status == status, reply.body
    rest = await console.post(f"{API}/refunds", body, as_=OPERATOR, key="rest")
    assert (rest.json["entry"]["amount_nano"], rest.json["entry"]["kind"]) == (7, "correction")
    detail = (await console.get(f"{API}/activity/{id_}")).json
    assert [one["amount_nano"] for one in detail["corrections"]] == [70, 7]


async def test_operators_see_the_whole_gateway(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All accounts together, by period; the first five by spend; nothing of it to holders."""
    with console.open_books() as books:
        now_ms = books.clock()
        ids = {name: keys.add_key(books, name).key.id for name in (HOLDER, OTHER)}
        balances = [books.accounts.read(name).balance_nano for name in (OPERATOR, HOLDER, OTHER)]
    made = {
        HOLDER: [
            Past(ids[HOLDER], now_ms - 5, now_ms, "large", 7 * NANO, provider_cost_nano=5 * NANO),
            Past(ids[HOLDER], now_ms - 5, now_ms, outcome="upstream_error", cost_nano=0),
            Past(ids[HOLDER], now_ms, now_ms - 29 * DAY_MS, cost_nano=10),
        ],
        OTHER: [
            Past(ids[OTHER], now_ms - 5, now_ms - 6 * DAY_MS, "large", 200 * NANO),
            Past(ids[OTHER], now_ms, now_ms - 30 * DAY_MS, cost_nano=1000),
        ],
    }
    for name, calls in made.items():
        add_calls(console.database, console.account_id(name), calls)
    view = (await console.get(f"{API}/gateway", as_=OPERATOR)).json
    names = ("requests", "failed", "charged_nano", "provider_cost_nano", "margin_nano")
    assert {name: tuple(one[part] for part in names) for name, one in view["periods"].items()} == {
        "today": (1, 1, 7 * NANO, 5 * NANO, 2 * NANO),
        "7d": (2, 1, 207 * NANO, 5 * NANO, 2 * NANO),
        "30d": (3, 1, 207 * NANO + 10, 5 * NANO, 2 * NANO),
    }
    assert view["periods"]["today"]["credited_nano"] == sum(balances)
    owed_nano = view["owed_nano"] - view["overdrawn_nano"]
    assert owed_nano == sum(balances) - 207 * NANO - 1010
    assert view["overdrawn_nano"] == max(200 * NANO + 1000 - CREDIT_NANO, 0)
    top = [(one["account"], one["charged_nano"]) for one in view["accounts"]]
    assert top == [(OTHER, 200 * NANO), (HOLDER, 7 * NANO + 10)]
    assert [one["model"] for one in view["models"]] == ["large", "demo/echo"]
    monkeypatch.setattr(overview, "TOP", 1)
    first = (await console.get(f"{API}/gateway", as_=OPERATOR)).json
    for what in ("accounts", "models"):
        assert first[what] == view[what][:1]
    assert (await console.get(f"{API}/gateway")).status == 404


async def test_open_holds_are_not_available(console: Console) -> None:
    with console.open_books() as books:
        secret = keys.add_key(books, HOLDER).secret
    assert console.gateway is not None
    ledger = console.gateway.ledger
    await ledger.refresh()
    key = ledger.find_key(ids.digest(secret))
    assert key is not None
    hold = ledger.hold(key, admission(30, id_="req_" + "0" * 28))
    await ledger.wait_admitted(hold)
    view = await get_overview(console)
    await ledger.settle(hold, settlement(4))
    after = await get_overview(console)
    assert (view["held_nano"], view["available_nano"]) == (30, CREDIT_NANO - 30)
    assert [(call["state"], call["outcome"]) for call in view["calls"]] == [("pending", "pending")]
    assert view["first_call"] is False, "it may yet fail"
    assert (after["held_nano"], after["available_nano"]) == (0, CREDIT_NANO - 4)
    assert after["first_call"] is True


async def test_notices_say_what_to_do(tmp_path: Path) -> None:
    """Notices tell about a low or empty balance, suspension and keys about to expire."""
    async with open_console(tmp_path, billing="low_balance = 20") as console:

        async def find_notices() -> dict[str, str]:
            notices = (await get_overview(console))["notices"]
            return {notice["code"]: notice["message"] for notice in notices}

        with console.open_books() as books:
            now_ms = books.clock()
            assert list(await find_notices()) == ["no_password"]
            books.entries.correct(HOLDER, -80 * NANO, note="n")
            assert list(await find_notices()) == ["no_password"], "at the amount"
            books.entries.correct(HOLDER, -1, note="n")
            low = await find_notices()
            assert low["balance_low"].startswith("The balance is below 20.00 USD. Top it up")
            books.entries.correct(HOLDER, 1 - 20 * NANO, note="n")
            books.accounts.suspend(HOLDER)
            soon_ms = now_ms + 3 * DAY_MS
            keys.add_key(books, HOLDER, KeyTerms(expires_ms=now_ms + 9 * DAY_MS))
            rotated = keys.add_key(books, HOLDER).key.id
            keys.rotate_key(books, rotated, grace_seconds=3600)
            keys.add_key(books, HOLDER, KeyTerms(name="laptop", expires_ms=soon_ms))
            empty = await find_notices()
            keys.add_key(books, HOLDER, KeyTerms(expires_ms=soon_ms + 5))
            several = await find_notices()
    assert list(empty) == ["suspended", "balance_empty", "key_expiring", "no_password"]
    moment = (format_iso(soon_ms) or "")[:16].replace("T", " ")
    assert f"expires on {moment} UTC. Set a later expiry" in empty["key_expiring"]
    assert empty["key_expiring"].startswith("The key 'laptop' (sk-ru-…")
    assert several["key_expiring"].startswith("2 keys expire within 7 days, first 'laptop'")


@each_row(
    ("balance", "available", "spent", "days"),
    [
        (70, 70, 7, 70),
        (70, 69, 7, 69),
        (70, 6, 49, 0),
        (70, 48, 49, 6),
        (70, 70, 0, None),
        (0, 0, 7, None),
        (-5, -5, 7, None),
        (5, -5, 7, 0),
    ],
)
def test_days_left(balance: int, available: int, spent: int, days: int | None) -> None:
    assert count_days_left(balance, available, spent) == days
