"""Operators add, credit, correct and suspend accounts: each change has a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from gateway.money import NANO
from tests.admin.kit import ACCOUNT_FIELDS, ACCOUNTS, ENTRY_FIELDS, add_key, get, post, quote, url
from tests.console.kit import API, CREDIT_NANO, HOLDER, OPERATOR, OTHER, Console, open_console
from tests.support.rows import each_row


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


# ---- adding --------------------------------------------------------------------------------------


async def test_add_account(console: Console) -> None:
    body = {"name": "new one", "operator": True, "credit": "2.5", "note": "to begin with"}
    reply = await post(console, ACCOUNTS, body, key="add")
    assert (reply.status, reply.json["sessions"]) == (201, 0)
    made = reply.json
    assert (made["name"], made["operator"], made["balance"]) == ("new one", True, "2.50")
    assert [one["note"] for one in made["entries"]] == ["to begin with"]
    again = await post(console, ACCOUNTS, body, key="add")
    assert (again.status, again.json) == (201, made)
    assert again.headers["Idempotent-Replay"] == "true"
    plain = await post(console, ACCOUNTS, {"name": "plain"}, key="plain")
    assert (plain.json["operator"], plain.json["balance_nano"], plain.json["entries"]) == (
        False,
        0,
        [],
    )


@pytest.mark.parametrize(
    "name",
    ["<script>alert('x')</script>", "Ünïcode Ωмега 名前", "a/b?c#d%2F", "x" * 100, '"', "\\"],
)
async def test_names_are_texts_and_nothing_else(console: Console, name: str) -> None:
    """Names that look like markup or a path are stored and shown unchanged."""
    assert (await post(console, ACCOUNTS, {"name": name}, key="k")).status == 201
    detail = await get(console, f"{ACCOUNTS}/by-name?name={quote(name)}")
    assert detail["name"] == name
    reply = await console.get(url(console, name), as_=OPERATOR)
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


BAD_TEXTS: Final = {
    "right-to-left": "abc\u202edef",
    "isolate": "abc\u2066def",
    "zero width": "a\u200bb",
    "new line": "a\nb",
    "control": "a\x1b[31mb",
    "NUL": "a\0b",
    "10 kB": "x" * 10_000,
}


@each_row("name", BAD_TEXTS)
async def test_texts_that_hide_something_are_refused(console: Console, name: str) -> None:
    text = BAD_TEXTS[name]
    holder = url(console, HOLDER)
    tries: list[tuple[str, dict[str, object], str]] = [
        (ACCOUNTS, {"name": text}, "name"),
        (ACCOUNTS, {"name": "fine", "credit": "1", "note": text}, "note"),
        (f"{holder}/credit", {"amount": "1", "note": text}, "note"),
        (f"{holder}/correct", {"amount": "1", "note": text}, "note"),
        (f"{holder}/suspend", {"reason": text}, "reason"),
    ]
    for path, body, field in tries:
        reply = await post(console, path, body, key="bad")
        assert reply.refusal == (400, "invalid_field", field)
    assert (await get(console, ACCOUNTS))["count"] == 3
    assert (await get(console, holder))["balance_nano"] == CREDIT_NANO


@each_row(
    ("body", "refusal"),
    [
        ({}, (400, "invalid_field", "name")),
        ({"name": ""}, (400, "invalid_field", "name")),
        ({"name": " "}, (400, "invalid_field", "name")),
        ({"name": 7}, (400, "invalid_field", "name")),
        ({"name": "a", "credit": "1"}, (400, "invalid_field", "note")),
        ({"name": "a", "credit": "-1", "note": "x"}, (400, "invalid_field", "credit")),
        ({"name": "a", "credit": "1e3", "note": "x"}, (400, "invalid_field", "credit")),
        ({"name": "a", "credit": 1, "note": "x"}, (400, "invalid_field", "credit")),
        ({"name": "a", "operator": "yes"}, (400, "invalid_field", "operator")),
        ({"name": "a", "balance": "5"}, (400, "unknown_field", "balance")),
        ({"name": HOLDER}, (409, "name_taken", "name")),
        ([], (400, "invalid_json", None)),
    ],
)
async def test_an_account_that_cannot_be_is_refused_by_its_field(
    console: Console, body: object, refusal: tuple[int, str, str | None]
) -> None:
    assert (await post(console, ACCOUNTS, body, key="add")).refusal == refusal
    assert (await get(console, ACCOUNTS))["count"] == 3


async def test_a_double_click_adds_one_account(console: Console) -> None:
    await console.sign_in(OPERATOR)
    body = {"name": "twin", "credit": "1", "note": "welcome"}
    replies = await asyncio.gather(*(post(console, ACCOUNTS, body, key="k") for _ in range(10)))
    assert {one.status for one in replies} == {201}
    assert len({one.body for one in replies}) == 1


# ---- moving money --------------------------------------------------------------------------------


async def test_credit_twice_under_one_key_is_one_entry(console: Console) -> None:
    path = url(console, HOLDER, "/credit")
    body = {"amount": "5", "note": "invoice 7"}
    first = await post(console, path, body, key="once")
    assert (first.status, set(first.json)) == (200, {"entry", "account"})
    assert set(first.json["entry"]) == ENTRY_FIELDS
    assert first.json["account"]["balance_nano"] == CREDIT_NANO + 5 * NANO
    again = await post(console, path, body, key="once")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["Idempotent-Replay"] == "true"
    other = await post(console, path, {"amount": "6", "note": "invoice 7"}, key="once")
    assert other.refusal == (409, "idempotency_conflict", None)
    assert (await post(console, path, body)).refusal == (400, "idempotency_key_missing", None)
    assert (await get(console, url(console, HOLDER, "/entries")))["count"] == 2


@pytest.mark.parametrize("verb", ["credit", "correct"])
async def test_a_double_click_moves_money_once(console: Console, verb: str) -> None:
    path, body = url(console, HOLDER, f"/{verb}"), {"amount": "5", "note": "double"}
    await console.sign_in(OPERATOR)
    replies = await asyncio.gather(*(post(console, path, body, key="k") for _ in range(20)))
    assert {(one.status, one.body) for one in replies} == {(200, replies[0].body)}
    assert sum("Idempotent-Replay" in one.headers for one in replies) == 19
    detail = await get(console, url(console, HOLDER))
    assert (detail["balance_nano"], len(detail["entries"])) == (CREDIT_NANO + 5 * NANO, 2)


@each_row(
    ("verb", "body", "refusal"),
    [
        ("credit", {"note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "1"}, (400, "invalid_field", "note")),
        ("credit", {"amount": "1", "note": ""}, (400, "invalid_field", "note")),
        ("credit", {"amount": "1", "note": "  "}, (400, "invalid_field", "note")),
        ("credit", {"amount": "0", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "-1", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "1,5", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "0.0000000001", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "1000000001", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "NaN", "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": 1.5, "note": "x"}, (400, "invalid_field", "amount")),
        ("credit", {"amount": "1", "note": "x", "to": 2}, (400, "unknown_field", "to")),
        ("correct", {"amount": "1"}, (400, "invalid_field", "note")),
        ("correct", {"amount": "0", "note": "x"}, (400, "invalid_field", "amount")),
        (
            "correct",
            {"amount": "1", "note": "x", "request_id": "req_none"},
            (400, "invalid_field", "request_id"),
        ),
    ],
)
async def test_a_move_without_amount_or_reason_is_refused(
    console: Console, verb: str, body: dict[str, object], refusal: tuple[int, str, str | None]
) -> None:
    assert (await post(console, url(console, HOLDER, f"/{verb}"), body, key="k")).refusal == refusal
    assert (await get(console, url(console, HOLDER)))["balance_nano"] == CREDIT_NANO


async def test_correct_with_a_sign_and_with_a_request(console: Console) -> None:
    secret = await add_key(console)
    request_id = (await console.complete(secret)).headers["x-request-id"]
    path = url(console, HOLDER, "/correct")
    taken = await post(console, path, {"amount": "-1.5", "note": "too much"}, key="1")
    assert (taken.json["entry"]["amount"], taken.json["entry"]["kind"]) == ("-1.50", "correction")
    body = {"amount": "0", "note": "stays as it is", "request_id": f" {request_id} "}
    settled = await post(console, path, body, key="2")
    assert settled.json["entry"]["request_id"] == request_id
    body = {"amount": "1", "note": "another's", "request_id": request_id}
    foreign = await post(console, url(console, OTHER, "/correct"), body, key="3")
    assert foreign.refusal == (400, "invalid_field", "request_id")
    unknown = await post(
        console, url(console, OTHER, "/correct"), body | {"request_id": "req_none"}, key="4"
    )
    texts = {one.error["message"].replace(request_id, "req_none") for one in (foreign, unknown)}
    assert len(texts) == 1


async def test_a_move_is_in_force_when_its_reply_is_here(console: Console) -> None:
    """The next request sees a lower balance at once; the holder sees the reason."""
    secret = await add_key(console)
    move = {"amount": "-200", "note": "charged back"}
    await post(console, url(console, HOLDER, "/correct"), move, key="k")
    assert (await console.complete(secret)).status == 402
    shown = await console.get(f"{API}/billing?kind=correction")
    assert [one["note"] for one in shown.json["entries"]] == ["charged back"]


# ---- suspending, signing in ----------------------------------------------------------------------


async def test_suspend_and_resume_count_at_once(console: Console) -> None:
    secret = await add_key(console)
    path = url(console, HOLDER)
    for _ in range(2):
        reply = await post(console, f"{path}/suspend", {"reason": "chargeback"})
        assert (reply.status, set(reply.json)) == (200, ACCOUNT_FIELDS)
        assert reply.json["suspended"]
    assert (await console.complete(secret)).status == 403
    assert not (await post(console, f"{path}/resume")).json["suspended"]
    assert (await console.complete(secret)).status == 200


async def test_nobody_suspends_themselves(console: Console) -> None:
    """No operator can suspend their own account, so one can always sign in."""
    own = url(console, OPERATOR)
    reply = await post(console, f"{own}/suspend", {"reason": "a slip"})
    assert reply.refusal == (409, "own_account", None)
    assert not (await get(console, own))["suspended"]


async def test_limits_of_an_account_count_at_once(console: Console) -> None:
    """They hold for all its keys, and for those that are made later."""
    secret, path = await add_key(console), url(console, HOLDER)
    body = {"models": ["vendor/large"], "requests_per_minute": 2}
    reply = await console.patch(path, body, as_=OPERATOR)
    assert (reply.status, reply.json["models"]) == (200, ["vendor/large"])
    assert (reply.json["requests_per_minute"], reply.json["concurrency"]) == (2, None)
    assert (await console.get(f"{API}/session", as_=HOLDER)).json["models"] == ["vendor/large"]
    shown = (await console.get(f"{API}/models", as_=HOLDER)).json
    assert [one["id"] for one in shown["models"]] == ["vendor/large"]
    assert (await console.complete(secret)).status == 403
    await console.patch(path, {"models": None}, as_=OPERATOR)
    assert (await console.complete(await add_key(console))).status == 200
    refused = await console.complete(secret)
    assert refused.status == 429
    assert refused.error["message"].startswith("This account may make 2 requests per minute.")
    assert (await console.patch(path, {}, as_=OPERATOR)).json["requests_per_minute"] == 2


@each_row(
    ("name", "value"),
    [("models", []), ("models", ["x" * 201]), ("models", [f"{n:02}{'é' * 198}" for n in range(11)]), ("models", "all"),
     ("concurrency", -1), ("concurrency", "1"), ("tokens_per_minute", 10**10), ("operator", 1),
     ("balance", "1"), ("name", "other")],
)  # fmt: skip
async def test_bad_limits_are_refused(console: Console, name: str, value: object) -> None:
    reply = await console.patch(url(console, HOLDER), {name: value}, as_=OPERATOR)
    assert (reply.status, reply.error["field"]) == (400, name)


async def test_an_operator_is_demoted_but_not_by_themselves(console: Console) -> None:
    """So there is always one who can sign in and act."""
    own, holder = url(console, OPERATOR), url(console, HOLDER)
    for body in ({"operator": False}, {"operator": False, "concurrency": 1}):
        refused = await console.patch(own, body, as_=OPERATOR)
        assert refused.refusal == (409, "own_account", None)
    assert (await console.patch(own, {"operator": True}, as_=OPERATOR)).status == 200
    await console.sign_in(HOLDER)
    assert (await console.patch(holder, {"operator": True}, as_=OPERATOR)).json["operator"]
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401
    console.cookies.pop(HOLDER)
    assert (await console.get(own, as_=HOLDER)).status == 200
    demoted = await console.patch(holder, {"operator": False}, as_=OPERATOR)
    assert (demoted.json["operator"], demoted.json["sessions"]) == (False, 0)
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401


async def test_an_operator_ends_the_sessions_of_an_account(console: Console) -> None:
    await console.sign_in(HOLDER)
    path = url(console, HOLDER, "/end-sessions")
    ended = await post(console, path)
    assert (ended.status, ended.json) == (200, {"ended": 1})
    assert (await console.get(f"{API}/session", as_=HOLDER)).status == 401
    assert (await post(console, path)).json == {"ended": 0}
    refused = await post(console, url(console, OPERATOR, "/end-sessions"))
    assert refused.refusal == (409, "own_account", None)
    assert (await console.get(f"{API}/session", as_=OPERATOR)).status == 200


async def test_signin_link_works_once_and_replaces_the_one_before(console: Console) -> None:
    path = url(console, HOLDER, "/signin-link")
    links = [await post(console, path) for _ in range(2)]
    assert [(one.status, set(one.json)) for one in links] == [(201, {"url", "expires"})] * 2
    tokens = []
    for one in links:
        base, _, token = one.json["url"].partition("/console/signin#token=")
        assert base == console.root_url
        tokens.append(token)
    used = [
        (await console.post(f"{API}/session/link", {"token": token}, as_=None)).status
        for token in (*tokens, tokens[1])
    ]
    assert used == [401, 200, 401]
    log = (await console.get(f"{API}/audit/log", as_=OPERATOR)).body.decode()
    assert not any(token in log for token in tokens)


async def test_signin_link_leads_to_the_public_address(tmp_path: Path) -> None:
    async with open_console(tmp_path, server='public_url = "https://llm.example.com"') as console:
        headers = {"Origin": "https://llm.example.com"}
        path = url(console, HOLDER, "/signin-link")
        reply = await console.post(path, as_=OPERATOR, headers=headers)
        assert reply.json["url"].startswith("https://llm.example.com/console/signin#token=")


async def test_all_that_is_done_is_noted_with_its_reason(console: Console) -> None:
    path = url(console, HOLDER)
    await post(console, ACCOUNTS, {"name": "new", "credit": "1", "note": "n1"}, key="1")
    await post(console, f"{path}/credit", {"amount": "2", "note": "n2"}, key="2")
    await post(console, f"{path}/credit", {"amount": "2", "note": "n2"}, key="2")
    await post(console, f"{path}/correct", {"amount": "-3", "note": "n3"}, key="3")
    await post(console, f"{path}/suspend", {"reason": "n4"})
    await post(console, f"{path}/resume")
    await post(console, f"{path}/signin-link")
    log = await get(console, f"{API}/audit/log?search=account.")
    done = [(one["action"], one["account"]) for one in reversed(log["events"])]
    assert done[-6:] == [
        ("account.add", "new"),
        ("account.credit", HOLDER),
        ("account.correct", HOLDER),
        ("account.suspend", HOLDER),
        ("account.resume", HOLDER),
        ("account.signin_link", HOLDER),
    ]
    latest = log["events"][:6]
    assert {(one["actor"], one["address"]) for one in latest} == {(OPERATOR, "127.0.0.1")}
    details = [one["detail"] for one in reversed(latest)]
    assert [words in detail for words, detail in zip(
        ("1.00", "2.00: n2", "-3.00: n3", "n4"), details, strict=False
    )] == [True] * 4  # fmt: skip
