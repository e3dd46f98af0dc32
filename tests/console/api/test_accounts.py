"""Operators look up and credit accounts. `played/accounts.txt` has all other changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sql import accounts as account_book
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import NANO
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
    read_pages,
)
from tests.support.rows import each_row

SUMS: Final = ("spent_today", "spent_7d", "spent_30d")
LISTED_FIELDS: Final = (
    ACCOUNT_FIELDS | {*SUMS, *(f"{one}_nano" for one in SUMS)} | {"keys", "last_used", "has_password", "days_left"}
)  # fmt: skip
DETAIL_FIELDS: Final = LISTED_FIELDS | {"entries", "key_list", "sessions"}

# ---- looking up ----------------------------------------------------------------------------------


async def test_list_shows_how_each_account_stands(console: Console) -> None:
    with console.open_books() as books:
        capped = keys.add_key(books, HOLDER, KeyTerms(cap_nano=1))
        books.keys.revoke(keys.add_key(books, HOLDER).key.id)
    used = await add_key(console)
    listed = await get(console, ACCOUNTS)
    holder = listed["accounts"][0]
    assert (listed["count"], set(holder)) == (3, LISTED_FIELDS)
    assert [one["name"] for one in listed["accounts"]] == [HOLDER, OPERATOR, OTHER]
    assert (holder["keys"], holder["last_used"], holder["has_password"]) == (2, None, False)
    assert (holder["balance_nano"], holder["spent_30d_nano"]) == (CREDIT_NANO, 0)
    for secret in (used, capped.secret):
        assert (await console.complete(secret)).status == 200
    holder = (await get(console, ACCOUNTS))["accounts"][0]
    assert holder["spent_30d_nano"] == CREDIT_NANO - holder["balance_nano"] > 0
    assert (holder["last_used"] is not None, holder["keys"]) == (True, 1), "one has spent its cap"


async def test_accounts_are_sorted_by_what_was_asked_for(console: Console) -> None:
    """The largest first, equal ones by name; each is on one page."""
    made = await console.post(f"{API}/keys", {}, as_=OTHER)
    assert (await console.complete(made.json["secret"])).status == 200
    plain = (await get(console, ACCOUNTS))["accounts"]
    for sort in ("name", "balance", "held", *SUMS):
        wanted = sorted(plain, key=lambda one: (-one.get(f"{sort}_nano", 0), one["name"]))
        for limit in (1, 2, 50):
            path = f"{ACCOUNTS}?sort={sort}&limit={limit}"
            assert await read_pages(console, path, "accounts", as_=OPERATOR) == wanted
        assert sort not in SUMS or wanted[0]["name"] == OTHER
    least = (await get(console, f"{ACCOUNTS}?sort=least"))["accounts"]
    assert least == sorted(plain, key=lambda one: (one["balance_nano"], one["name"]))
    path = f"{ACCOUNTS}?sort=lasts&limit=1"
    lasting = await read_pages(console, path, "accounts", as_=OPERATOR)
    assert [one["name"] for one in lasting] == [OTHER, HOLDER, OPERATOR]
    assert [one["days_left"] is None for one in lasting] == [False, True, True]


async def test_all_keys_are_listed_with_the_longest_unused_first(console: Console) -> None:
    with console.open_books() as books:
        made = [keys.add_key(books, name).key.id for name in (OTHER, HOLDER, HOLDER)]
        books.keys.revoke(made.pop())
    used = await add_key(console)
    assert (await console.complete(used)).status == 200
    listed = await read_pages(console, f"{ACCOUNTS}/keys?limit=1", "keys", as_=OPERATOR)
    assert [one["id"] for one in listed[:2]] == sorted(made)
    assert [one["last_used"] is None for one in listed] == [True, True, False]
    assert {one["account"] for one in listed} == {OTHER, HOLDER}
    assert (await get(console, f"{ACCOUNTS}/keys?unused_days=30"))["keys"] == []


async def test_the_totals_are_those_of_all_accounts(console: Console) -> None:
    secret = (await console.post(f"{API}/keys", {}, as_=OTHER)).json["secret"]
    assert (await console.complete(secret)).status == 200
    listed = await get(console, f"{ACCOUNTS}?limit=1")
    rows = (await get(console, ACCOUNTS))["accounts"]
    for name in ("balance", "held", *SUMS):
        assert listed["totals"][f"{name}_nano"] == sum(one[f"{name}_nano"] for one in rows), name
    assert listed["totals"]["spent_today_nano"] > 0
    assert (await get(console, f"{ACCOUNTS}?search={OTHER}"))["totals"] is None


async def test_search_is_for_a_part_of_the_name_in_any_case(console: Console) -> None:
    """Names and searches that look like markup, a path or SQL are texts and nothing else."""
    odd = ("<script>alert('x')</script>", "Ünïcode Ωмега 名前", "a/b?c#d%2F", "x" * 100, '"', "\\")
    plain = ("Alice", "malice", "ИВАН Петров", "Straße 7", "100% cotton", "snake_case")
    for key, name in enumerate((*odd, *plain)):
        assert (await post(console, ACCOUNTS, {"name": name}, key=f"{key}")).status == 201
        detail = await get(console, f"{ACCOUNTS}/by-name?name={quote(name)}")
        assert detail["name"] == name
        reply = await console.get(url(console, name), as_=OPERATOR)
        assert reply.headers["Content-Type"].startswith("application/json")
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    for search, found in {
        "ALICE": ["Alice", "malice"], "иван": ["ИВАН Петров"], "СТРАССЕ": [],
        "strasse": ["Straße 7"], "100%": ["100% cotton"], "_": ["snake_case"],
        "<script>": [odd[0]], "nobody": [], "'; DROP TABLE accounts; --": [],
    }.items():  # fmt: skip
        listed = await get(console, f"{ACCOUNTS}?search={quote(search)}")
        assert [one["name"] for one in listed["accounts"]] == sorted(found)
        assert listed["count"] == len(found)
    for search in ("%ED%A0%80", "%FF", "%00", "x" * 2000):
        assert (await get(console, f"{ACCOUNTS}?search={search}"))["accounts"] == []
        reply = await console.get(f"{ACCOUNTS}/by-name?name={search}", as_=OPERATOR)
        assert reply.refusal == (404, "not_found", None)


async def test_detail_is_the_same_by_id_and_by_name(console: Console) -> None:
    """It shows at most 200 keys; those that work come first, however old."""
    with console.open_books() as books, books.changing():
        live = keys.add_key(books, HOLDER, KeyTerms(name="live")).key
        for number in range(200):
            books.keys.revoke(keys.add_key(books, HOLDER).key.id)
            if number % 20 == 0:
                books.entries.credit(HOLDER, NANO, note=f"number {number}")
        books.entries.credit(HOLDER, NANO, note="last")
    await console.sign_in(HOLDER)
    detail = await get(console, url(console, HOLDER))
    assert detail == await get(console, f"{ACCOUNTS}/by-name?name={HOLDER}")
    assert set(detail) == DETAIL_FIELDS
    assert [set(one) for one in detail["entries"]] == [ENTRY_FIELDS] * 10
    assert [one["note"] for one in detail["entries"]][:2] == ["last", "number 180"]
    shown = detail["key_list"]
    assert (len(shown), shown[0]["id"]) == (200, live.id)
    assert [one["status"] for one in shown] == ["active"] + ["revoked"] * 199
    assert (detail["keys"], detail["sessions"]) == (1, 1)


@each_row(
    "segment", ["0", "-1", "999", "abc", "1e3", "9" * 40, "%00", "%C2%B2", "1.0", " 1", "1%2F", "01"]
)  # fmt: skip
async def test_what_is_no_account_is_not_found(console: Console, segment: str) -> None:
    """All unknown accounts get the same message, on every route; each account has one path."""
    for path in ("", "/entries", "/usage", "/budgets"):
        reply = await console.get(f"{ACCOUNTS}/{segment}{path}", as_=OPERATOR)
        assert reply.refusal == (404, "not_found", None)
    move = {"amount": "1", "note": "why"}
    for verb in ("credit", "correct", "suspend", "resume", "signin-link", "keys"):
        body = move if verb.startswith("c") else {}
        reply = await post(console, f"{ACCOUNTS}/{segment}/{verb}", body, key="k")
        assert reply.refusal == (404, "not_found", None)


async def test_entries_come_in_pages(console: Console) -> None:
    with console.open_books() as books:
        for number in range(5):
            books.entries.credit(OTHER, NANO, note=f"number {number}")
    path = url(console, OTHER, "/entries?limit=4")
    entries = await read_pages(console, path, "entries", as_=OPERATOR)
    assert [set(one) for one in entries] == [ENTRY_FIELDS] * 6
    assert entries[0]["balance_after_nano"] == CREDIT_NANO + 5 * NANO
    assert {one["account"] for one in entries} == {OTHER}


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


# ---- adding, moving money ------------------------------------------------------------------------


# ---- suspending, roles, signing in ---------------------------------------------------------------


async def test_a_suspended_operator_is_a_holder_and_cannot_undo_it(console: Console) -> None:
    key = (await console.post(f"{API}/keys", {})).json["key"]["id"]
    own = url(console, OPERATOR)
    assert (await console.get(own, as_=OPERATOR)).status == 200
    with console.open_books() as books:
        books.accounts.suspend(OPERATOR)
    for target in (f"{own}/resume", f"{own}/credit", f"{API}/keys/{key}/revoke"):
        reply = await post(console, target, None, key="k")
        assert reply.refusal == (404, "not_found", None)
    account = (await console.get(f"{API}/session", as_=OPERATOR)).json["account"]
    assert (account["suspended"], account["operator"]) == (True, False)
    with console.open_books() as books:
        books.accounts.resume(OPERATOR)
    assert (await get(console, own))["operator"] is True


async def test_a_signin_link_leads_to_the_public_address(tmp_path: Path) -> None:
    """It signs in, and the log does not have it."""
    async with open_console(tmp_path, server='public_url = "https://llm.example.com"') as console:
        path, headers = url(console, HOLDER, "/signin-link"), {"Origin": "https://llm.example.com"}
        reply = await console.post(path, as_=OPERATOR, headers=headers)
        assert (reply.status, set(reply.json)) == (201, {"url", "expires"})
        base, _, token = reply.json["url"].partition("/console/signin#token=")
        assert base == "https://llm.example.com"
        opened = await console.post(
            f"{API}/session/link", {"token": token}, as_=None, headers=headers
        )
        assert opened.status == 200
        assert token not in (await console.get(f"{API}/audit/log", as_=OPERATOR)).body.decode()
