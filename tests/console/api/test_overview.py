"""The overview: balance, spending, the last days and requests, and notices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway import apikeys
from gateway.admin import accounts, keys
from gateway.console.api.activity import count_days_left
from gateway.ledger.key_records import KeyTerms
from gateway.money import NANO
from gateway.times import DAY_MS, format_iso
from tests.console.calls import SUMS, Past, add_calls
from tests.console.kit import API, CREDIT_NANO, HOLDER, Console, open_console
from tests.ledger.kit import admission, settlement
from tests.support.rows import each_row


def add(days: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(day[name] for day in days) for name in SUMS}


async def get_overview(console: Console, as_: str = HOLDER) -> dict[str, Any]:
    reply = await console.get(f"{API}/overview", as_=as_)
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.json
    return body


async def test_an_overview_of_nothing(tmp_path: Path) -> None:
    """A new account has no holds, 30 days of zeros, and notices that say what to do first."""
    async with open_console(tmp_path) as console:
        view = await get_overview(console)
    days = view.pop("days")
    assert len(days) == 30
    assert [day["day"] for day in days] == sorted(day["day"] for day in days)
    assert add(days) == dict.fromkeys(SUMS, 0)
    (notice,) = view.pop("notices")
    assert notice["code"] == "no_password"
    zero = {"0.00", 0}
    for name in ("held", "spent_today", "spent_7d", "spent_30d"):
        assert {view.pop(name), view.pop(f"{name}_nano")} == zero
    assert view == {
        "balance": "100.00",
        "balance_nano": CREDIT_NANO,
        "available": "100.00",
        "available_nano": CREDIT_NANO,
        "currency": "USD",
        "days_left": None,
        "refused_today": [],
        "calls": [],
        "keys": 0,
        "first_key": False,
        "first_call": False,
    }


async def test_an_overview_adds_up(tmp_path: Path) -> None:
    """The sums of today, 7 and 30 days include today and equal the sums of their days."""

    costs = {0: 7 * NANO, 1: 10, 6: 100, 7: 1000, 29: 10_000, 30: 100_000}
    async with open_console(tmp_path) as console:
        with console.open_books() as books:
            key_id = keys.add_key(books, HOLDER).key.id
            books.keys.revoke(keys.add_key(books, HOLDER).key.id)
            now_ms = books.clock()
        calls = [
            Past(key_id, now_ms - ago * DAY_MS - 5, now_ms - ago * DAY_MS, cost_nano=cost)
            for ago, cost in costs.items()
        ]
        add_calls(console.database, console.account_id(HOLDER), calls * 2)
        view = await get_overview(console)
        usage = (await console.get(f"{API}/usage")).json
        activity = (await console.get(f"{API}/activity?limit=10")).json
    assert view["spent_today_nano"] == 14 * NANO
    assert view["spent_7d_nano"] == 14 * NANO + 220
    assert view["spent_30d_nano"] == 14 * NANO + 22_220
    assert add(view["days"]) == {name: usage["totals"][name] for name in SUMS}
    assert [day for day in view["days"] if day["requests"]] == usage["rows"]
    assert view["balance_nano"] == CREDIT_NANO - 14 * NANO - 222_220
    assert view["days_left"] == view["available_nano"] * 7 // view["spent_7d_nano"] == 42
    assert view["calls"] == activity["calls"]
    assert len(view["calls"]) == 10
    assert (view["keys"], view["first_key"], view["first_call"]) == (1, True, True)


async def test_open_holds_are_not_available(tmp_path: Path) -> None:
    async with open_console(tmp_path) as console:
        with console.open_books() as books:
            secret = keys.add_key(books, HOLDER).secret
        assert console.gateway is not None
        ledger = console.gateway.ledger
        await ledger.refresh()
        key = ledger.find_key(apikeys.digest(secret))
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


def find_notices(view: dict[str, Any]) -> dict[str, str]:
    return {notice["code"]: notice["message"] for notice in view["notices"]}


async def test_notices_say_what_to_do(tmp_path: Path) -> None:
    """Notices tell about a low or empty balance, suspension and keys about to expire."""
    async with open_console(tmp_path, billing="low_balance = 20") as console:
        with console.open_books() as books:
            now_ms = books.clock()
            assert list(find_notices(await get_overview(console))) == ["no_password"]
            accounts.correct(books, HOLDER, -80 * NANO, note="n")
            assert list(find_notices(await get_overview(console))) == ["no_password"], (
                "at the amount"
            )
            accounts.correct(books, HOLDER, -1, note="n")
            low = find_notices(await get_overview(console))
            assert low["balance_low"].startswith("The balance is below 20.00 USD. Top it up")
            accounts.correct(books, HOLDER, 1 - 20 * NANO, note="n")
            accounts.suspend(books, HOLDER)
            soon_ms = now_ms + 3 * DAY_MS
            keys.add_key(books, HOLDER, KeyTerms(expires_ms=now_ms + 9 * DAY_MS))
            rotated = keys.add_key(books, HOLDER).key.id
            keys.rotate_key(books, rotated, grace_seconds=3600)
            keys.add_key(books, HOLDER, KeyTerms(name="laptop", expires_ms=soon_ms))
            empty = find_notices(await get_overview(console))
            keys.add_key(books, HOLDER, KeyTerms(expires_ms=soon_ms + 5))
            several = find_notices(await get_overview(console))
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
