"""Operators look up accounts by name and id, in pages, with their current figures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sql.books import accounts as account_book
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import NANO
from gateway.times import DAY_MS
from tests.admin.kit import ACCOUNT_FIELDS, ACCOUNTS, ENTRY_FIELDS, add_key, get, post, quote, url
from tests.console.kit import (
    API,
    CREDIT_NANO,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    make_database,
    open_console,
)
from tests.support.rows import each_row

LISTED_FIELDS: Final = ACCOUNT_FIELDS | {
    "spent_today", "spent_today_nano", "spent_7d", "spent_7d_nano", "spent_30d", "spent_30d_nano", "keys", "last_used", "has_password",
}  # fmt: skip
DETAIL_FIELDS: Final = LISTED_FIELDS | {"entries", "key_list", "sessions"}


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


def names(listed: Any) -> list[str]:
    return [one["name"] for one in listed["accounts"]]


# ---- looking up ----------------------------------------------------------------------------------


async def test_list_shows_how_each_account_stands(console: Console) -> None:
    with console.open_books() as books:
        capped = keys.add_key(books, HOLDER, KeyTerms(cap_nano=1))
        ended = keys.add_key(books, HOLDER)
        books.keys.revoke(ended.key.id)
    used = await add_key(console)
    listed = await get(console, ACCOUNTS)
    assert (listed["count"], names(listed)) == (3, [HOLDER, OPERATOR, OTHER])
    assert listed["next_cursor"] is None
    holder = listed["accounts"][0]
    assert set(holder) == LISTED_FIELDS
    assert (holder["keys"], holder["last_used"], holder["has_password"]) == (2, None, False)
    assert (holder["balance_nano"], holder["spent_30d_nano"]) == (CREDIT_NANO, 0)
    for secret in (used, capped.secret):
        assert (await console.complete(secret)).status == 200
    holder = (await get(console, ACCOUNTS))["accounts"][0]
    assert holder["spent_30d_nano"] == CREDIT_NANO - holder["balance_nano"] > 0
    assert (holder["last_used"] is not None, holder["keys"]) == (True, 1), "one has spent its cap"


async def test_list_in_pages_shows_each_account_once(console: Console) -> None:
    wanted = sorted([HOLDER, OPERATOR, OTHER, *(f"acc-{number:02}" for number in range(20))])
    with console.open_books() as books:
        for name in wanted[:20]:
            accounts.add_account(books, name)
    seen: list[str] = []
    path: str | None = f"{ACCOUNTS}?limit=7"
    while path is not None:
        reply = await console.get(path, as_=OPERATOR)
        assert reply.json["count"] == len(wanted)
        seen += names(reply.json)
        link = re.fullmatch(r'<(.+)>; rel="next"', reply.headers.get("Link", ""))
        assert (link is None) == (reply.json["next_cursor"] is None)
        path = None if link is None else link[1]
    assert seen == wanted


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("ALICE", ["Alice", "malice"]),
        ("иван", ["ИВАН Петров"]),
        ("СТРАССЕ", []),
        ("strasse", ["Straße 7"]),
        ("100%", ["100% cotton"]),
        ("_", ["snake_case"]),
        ("<script>", ["<script>alert(1)</script>"]),
        ("nobody", []),
        ("'; DROP TABLE accounts; --", []),
    ],
)
async def test_search_is_for_a_part_of_the_name_in_any_case(
    console: Console, search: str, found: list[str]
) -> None:
    with console.open_books() as books:
        for name in (
            "Alice", "malice", "ИВАН Петров", "Straße 7", "100% cotton", "snake_case",
            "<script>alert(1)</script>",
        ):  # fmt: skip
            accounts.add_account(books, name)
    reply = await console.ask("GET", f"{ACCOUNTS}?search={quote(search)}", as_=OPERATOR)
    assert (names(reply.json), reply.json["count"]) == (sorted(found), len(found))


@each_row("query", ["cursor=x", "cursor=WzFd", "cursor=W10", "limit=0", "limit=201", "limit=x"])
async def test_pages_that_cannot_be_are_refused(console: Console, query: str) -> None:
    reply = await console.get(f"{ACCOUNTS}?{query}", as_=OPERATOR)
    assert reply.refusal == (400, "invalid_field", query.partition("=")[0])


async def test_texts_that_are_none_break_nothing(console: Console) -> None:
    for search in ("%ED%A0%80", "%FF", "%00", "x" * 2000):
        reply = await console.get(f"{ACCOUNTS}?search={search}", as_=OPERATOR)
        assert (reply.status, reply.json["accounts"]) == (200, [])
        reply = await console.get(f"{ACCOUNTS}/by-name?name={search}", as_=OPERATOR)
        assert reply.refusal == (404, "not_found", None)


async def test_detail_shows_at_most_200_keys(console: Console) -> None:
    with console.open_books() as books, books.changing():
        live = keys.add_key(books, HOLDER).key
        for _ in range(200):
            books.keys.revoke(keys.add_key(books, HOLDER).key.id)
    shown = (await get(console, url(console, HOLDER)))["key_list"]
    assert len(shown) == 200
    assert shown[0]["id"] == live.id, "keys that work come first, however old"


async def test_detail_is_the_same_by_id_and_by_name(console: Console) -> None:
    with console.open_books() as books:
        dead = keys.add_key(books, HOLDER, KeyTerms(name="dead")).key
        books.keys.revoke(dead.id)
        live = keys.add_key(books, HOLDER, KeyTerms(name="live")).key
        for number in range(12):
            accounts.credit(books, HOLDER, NANO, note=f"number {number}")
        books.keys.revoke(keys.add_key(books, HOLDER, KeyTerms(name="newest")).key.id)
    await console.sign_in(HOLDER)
    detail = await get(console, url(console, HOLDER))
    assert detail == await get(console, f"{ACCOUNTS}/by-name?name={HOLDER}")
    assert set(detail) == DETAIL_FIELDS
    assert [one["note"] for one in detail["entries"]] == [
        f"number {number}" for number in range(11, 1, -1)
    ]
    assert [set(one) for one in detail["entries"]] == [ENTRY_FIELDS] * 10
    assert [one["id"] for one in detail["key_list"]][:1] == [live.id]
    assert [one["status"] for one in detail["key_list"]] == ["active", "revoked", "revoked"]
    assert (detail["keys"], detail["sessions"]) == (1, 1)


@each_row(
    "segment", ["0", "-1", "999", "abc", "1e3", "9" * 40, "%00", "%C2%B2", "1.0", " 1", "1%2F"]
)
async def test_what_is_no_account_is_not_found(console: Console, segment: str) -> None:
    """All unknown accounts get the same message, on every route."""
    for path in (f"{ACCOUNTS}/{segment}", f"{ACCOUNTS}/{segment}/entries"):
        assert (await console.get(path, as_=OPERATOR)).refusal == (404, "not_found", None)
    move = {"amount": "1", "note": "why"}
    for verb, body in (
        ("credit", move),
        ("correct", move),
        ("suspend", {}),
        ("resume", {}),
        ("signin-link", {}),
    ):
        reply = await post(console, f"{ACCOUNTS}/{segment}/{verb}", body, key="k")
        assert reply.refusal == (404, "not_found", None)


async def test_entries_come_in_pages(console: Console) -> None:
    with console.open_books() as books:
        for number in range(5):
            accounts.credit(books, OTHER, NANO, note=f"number {number}")
    path = url(console, OTHER, "/entries")
    first = await get(console, f"{path}?limit=4")
    rest = await get(console, f"{path}?limit=4&cursor={first['next_cursor']}")
    assert (first["count"], len(first["entries"]), rest["next_cursor"]) == (6, 4, None)
    entries = first["entries"] + rest["entries"]
    assert [set(one) for one in entries] == [ENTRY_FIELDS] * 6
    assert entries[0]["balance_after_nano"] == CREDIT_NANO + 5 * NANO
    assert {one["account"] for one in entries} == {OTHER}


async def test_a_holder_is_told_of_nobody(console: Console) -> None:
    """Holders cannot look up accounts, not even their own: these routes do not exist for them."""
    for name in (HOLDER, OTHER):
        for path in (url(console, name), url(console, name, "/entries"), ACCOUNTS):
            assert (await console.get(path)).refusal == (404, "not_found", None)
        assert (await console.get(f"{ACCOUNTS}/by-name?name={name}")).status == 404
        for verb in ("credit", "correct", "suspend", "resume", "signin-link"):
            body = {"amount": "1", "note": "mine"} if verb.startswith("c") else {}
            reply = await console.post(url(console, name, f"/{verb}"), body, key="k")
            assert reply.refusal == (404, "not_found", None)
    made = await console.post(ACCOUNTS, {"name": "new", "operator": True}, key="k")
    assert made.refusal == (404, "not_found", None)
    assert (await get(console, ACCOUNTS))["count"] == 3
    assert (await get(console, url(console, HOLDER)))["balance_nano"] == CREDIT_NANO


async def read_sorted(console: Console, sort: str, limit: int) -> list[dict[str, Any]]:
    """Read all pages of the accounts in an order."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        target = f"{API}/accounts?sort={sort}&limit={limit}&cursor={cursor}"
        page = (await console.get(target, as_=OPERATOR)).json
        found += page["accounts"]
        cursor = page["next_cursor"]
    return found


@each_row("limit", [1, 50])
async def test_accounts_are_sorted_by_what_was_asked_for(console: Console, limit: int) -> None:
    """The largest first, equal ones by name; each is on one page."""
    made = await console.post(f"{API}/keys", {}, as_=OTHER)
    assert (await console.complete(made.json["secret"])).status == 200
    plain = await read_sorted(console, "name", limit)
    assert [one["name"] for one in plain] == sorted(one["name"] for one in plain)
    for sort in ("balance", "held", "spent_today", "spent_7d", "spent_30d"):
        wanted = sorted(plain, key=lambda one: (-one[f"{sort}_nano"], one["name"]))
        found = await read_sorted(console, sort, limit)
        assert [one["name"] for one in found] == [one["name"] for one in wanted], sort
        assert sort[:5] != "spent" or found[0]["name"] == OTHER
    odd = await console.get(f"{API}/accounts?sort=size", as_=OPERATOR)
    assert odd.refusal == (400, "invalid_field", "sort")


# ---- the books -----------------------------------------------------------------------------------


def test_spent_is_of_the_days_asked_for(tmp_path: Path) -> None:
    with SqliteBooks(make_database(tmp_path)) as books:
        key = keys.add_key(books, HOLDER).key
        account_id, today = books.accounts.find_id(HOLDER), books.clock() // DAY_MS
        with books.changing() as connection:
            connection.executemany(
                "INSERT INTO daily VALUES (?, ?, 'm', ?, 1, 0, 0, 0, 0, 0, ?)",
                [
                    (account_id, today - age, key.id, cost)
                    for age, cost in ((0, 1), (29, 20), (30, 300))
                ],
            )
        assert books.accounts.read_standing(account_id, today=today).spent == Spent(1, 1, 21)
        assert books.accounts.rank("spent_30d", today=today)[account_id] == 21


def test_a_page_of_accounts_scans_nothing_that_grows(tmp_path: Path) -> None:
    """However many requests there are, each sum reads one account by its index."""
    wanted: dict[str, str | int] = {"ids": "[1]", "today": 0, "now": 0}
    with SqliteBooks(make_database(tmp_path)) as books, books.reading() as connection:
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN {account_book._STANDINGS}", wanted
        ).fetchall()
    steps = [row[3] for row in plan]
    assert any("SEARCH daily" in step for step in steps)
    assert [step for step in steps if step.startswith("SCAN") and "json_each" not in step] == []
