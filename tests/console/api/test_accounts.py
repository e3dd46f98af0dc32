"""Operators look up, add, credit, correct and suspend accounts: each change has a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sql.books import accounts as account_book
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


async def test_add_account(console: Console) -> None:
    body = {"name": "new one", "operator": True, "credit": "2.5", "note": "to begin with"}
    await console.sign_in(OPERATOR)
    replies = await asyncio.gather(*(post(console, ACCOUNTS, body, key="add") for _ in range(10)))
    assert {(one.status, one.body) for one in replies} == {(201, replies[0].body)}
    assert sum("Idempotent-Replay" in one.headers for one in replies) == 9
    made = replies[0].json
    assert (made["name"], made["operator"], made["balance"]) == ("new one", True, "2.50")
    assert ([one["note"] for one in made["entries"]], made["sessions"]) == (["to begin with"], 0)
    plain = (await post(console, ACCOUNTS, {"name": "plain"}, key="plain")).json
    assert (plain["operator"], plain["balance_nano"], plain["entries"]) == (False, 0, [])
    taken = await post(console, ACCOUNTS, {"name": HOLDER}, key="again")
    assert taken.refusal == (409, "name_taken", "name")


@each_row("verb", ["credit", "correct"])
async def test_a_double_click_moves_money_once(console: Console, verb: str) -> None:
    path, body = url(console, OTHER, f"/{verb}"), {"amount": "5", "note": "invoice 7"}
    await console.sign_in(OPERATOR)
    before = await get(console, url(console, OTHER))
    replies = await asyncio.gather(*(post(console, path, body, key="k") for _ in range(20)))
    assert {(one.status, one.body) for one in replies} == {(200, replies[0].body)}
    assert sum("Idempotent-Replay" in one.headers for one in replies) == 19
    first = replies[0].json
    assert (set(first), set(first["entry"])) == ({"entry", "account"}, ENTRY_FIELDS)
    detail = await get(console, url(console, OTHER))
    assert first["account"]["balance_nano"] == detail["balance_nano"]
    assert detail["balance_nano"] == before["balance_nano"] + 5 * NANO
    assert len(detail["entries"]) == len(before["entries"]) + 1
    other = await post(console, path, {"amount": "6", "note": "invoice 7"}, key="k")
    assert other.refusal == (409, "idempotency_conflict", None)
    assert (await post(console, path, body)).refusal == (400, "idempotency_key_missing", None)


async def test_correct_with_a_sign_and_with_a_request(console: Console) -> None:
    """A move is in force when its reply is here; another's request is as unknown as none."""
    secret = await add_key(console)
    request_id = (await console.complete(secret)).headers["x-request-id"]
    path = url(console, HOLDER, "/correct")
    taken = await post(console, path, {"amount": "-200", "note": "charged back"}, key="1")
    assert (taken.json["entry"]["amount"], taken.json["entry"]["kind"]) == ("-200.00", "correction")
    assert (await console.complete(secret)).status == 402
    body = {"amount": "0", "note": "stays as it is", "request_id": f" {request_id} "}
    settled = await post(console, path, body, key="2")
    assert settled.json["entry"]["request_id"] == request_id
    shown = await console.get(f"{API}/billing?kind=correction")
    assert [one["note"] for one in shown.json["entries"]] == ["stays as it is", "charged back"]
    texts = set()
    for wrong in (request_id, "req_none"):
        body = {"amount": "1", "note": "another's", "request_id": wrong}
        refused = await post(console, url(console, OTHER, "/correct"), body, key=wrong)
        assert refused.refusal == (400, "invalid_field", "request_id")
        texts.add(refused.error["message"].replace(request_id, "req_none"))
    assert len(texts) == 1


# ---- suspending, roles, signing in ---------------------------------------------------------------


async def test_suspend_and_resume_count_at_once(console: Console) -> None:
    """Also for an operator, who becomes a holder and cannot undo it."""
    secret = await add_key(console)
    path = url(console, HOLDER)
    for _ in range(2):
        reply = await post(console, f"{path}/suspend", {"reason": "chargeback"})
        assert (reply.status, set(reply.json)) == (200, ACCOUNT_FIELDS)
        assert reply.json["suspended"]
    assert (await console.complete(secret)).status == 403
    assert not (await post(console, f"{path}/resume")).json["suspended"]
    assert (await console.complete(secret)).status == 200
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


async def test_limits_are_in_force_at_once(console: Console) -> None:
    path, secret = url(console, HOLDER), await add_key(console)
    body = {"models": ["vendor/large"], "requests_per_minute": 2}
    edited = (await console.patch(path, body, as_=OPERATOR)).json
    assert (edited["models"], edited["requests_per_minute"]) == (["vendor/large"], 2)
    assert (await console.complete(secret)).status == 403
    await console.patch(path, {"models": None}, as_=OPERATOR)
    assert (await console.complete(await add_key(console))).status == 200
    refused = await console.complete(secret)
    assert refused.status == 429
    assert refused.error["message"].startswith("This account may make 2 requests per minute.")
    assert (await console.patch(path, {}, as_=OPERATOR)).json["requests_per_minute"] == 2


async def test_an_operator_is_demoted_but_not_by_themselves(console: Console) -> None:
    """So there is always one who can sign in and act."""
    own, holder = url(console, OPERATOR), url(console, HOLDER)
    for refused in (
        await console.patch(own, {"operator": False}, as_=OPERATOR),
        await console.patch(own, {"operator": False, "concurrency": 1}, as_=OPERATOR),
        await post(console, f"{own}/suspend", {"reason": "a slip"}),
        await post(console, f"{own}/end-sessions"),
    ):
        assert refused.refusal == (409, "own_account", None)
    assert (await console.patch(own, {"operator": True}, as_=OPERATOR)).status == 200
    await console.sign_in(HOLDER)
    assert (await console.patch(holder, {"operator": True}, as_=OPERATOR)).json["operator"]
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401
    await console.sign_in(HOLDER)
    assert (await console.get(own, as_=HOLDER)).status == 200
    demoted = await console.patch(holder, {"operator": False}, as_=OPERATOR)
    assert (demoted.json["operator"], demoted.json["sessions"]) == (False, 0)
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401
    await console.sign_in(HOLDER)
    for ended in (1, 0):
        reply = await post(console, f"{holder}/end-sessions")
        assert (reply.status, reply.json) == (200, {"ended": ended})
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401


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


async def test_all_that_is_done_is_noted_with_its_reason(console: Console) -> None:
    path = url(console, HOLDER)
    await post(console, ACCOUNTS, {"name": "new", "credit": "1", "note": "n1"}, key="1")
    for _ in range(2):
        await post(console, f"{path}/credit", {"amount": "2", "note": "n2"}, key="2")
    await post(console, f"{path}/correct", {"amount": "-3", "note": "n3"}, key="3")
    await post(console, f"{path}/suspend", {"reason": "n4"})
    await post(console, f"{path}/resume")
    await post(console, f"{path}/signin-link")
    log = await get(console, f"{API}/audit/log?search=account.")
    latest = log["events"][5::-1]
    assert {(one["actor"], one["address"]) for one in latest} == {(OPERATOR, "127.0.0.1")}
    wanted = {"add": "1.00", "credit": "2.00: n2", "correct": "-3.00: n3", "suspend": "n4",
              "resume": "", "signin_link": ""}  # fmt: skip
    assert [one["action"] for one in latest] == [f"account.{verb}" for verb in wanted]
    for one, words in zip(latest, wanted.values(), strict=True):
        assert words in (one["detail"] or "")
        assert one["account"] == ("new" if words == "1.00" else HOLDER)
