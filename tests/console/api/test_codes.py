"""Top-up codes in the console's API: operators make them, everybody can redeem, each works once."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin import codes
from gateway.money import NANO
from tests.console.kit import (
    API,
    CREDIT_NANO,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    find_bytes,
    open_console,
    start_console,
)
from tests.ledger.kit import query
from tests.support.rows import each_row

CODES: Final = f"{API}/codes"
REDEEM: Final = f"{API}/billing/redeem"
UNKNOWN: Final = "2222-2222-2222-2222"
TRIES: Final = 10

_keys = itertools.count()


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as opened:
        yield opened


async def make(console: Console, count: int = 1, **terms: Any) -> dict[str, Any]:
    reply = await console.post(
        CODES, {"amount": "5", "count": count, **terms}, as_=OPERATOR, key=f"make-{next(_keys)}"
    )
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


async def redeem(
    console: Console, code: object, *, as_: str = HOLDER, key: str | None = None
) -> Reply:
    return await console.post(REDEEM, {"code": code}, as_=as_, key=key or f"redeem-{next(_keys)}")


async def list_codes(console: Console, query_: str = "") -> list[dict[str, Any]]:
    reply = await console.get(f"{CODES}{query_}", as_=OPERATOR)
    assert reply.status == 200, reply.body
    found: list[dict[str, Any]] = reply.json["codes"]
    assert reply.json["count"] == len(found)
    return found


def read_balance(console: Console, account: str = HOLDER) -> int:
    with console.open_books() as books:
        return books.accounts.read(account).balance_nano


# ---- making --------------------------------------------------------------------------------------


async def test_codes_are_made_and_shown_once(console: Console) -> None:
    made = await make(console, 3, expires="2999-01-01", note="spring")
    assert made == {
        "batch": made["batch"],
        "codes": made["codes"],
        "amount": "5.00",
        "amount_nano": 5 * NANO,
        "expires": "2999-01-01T00:00:00.000Z",
        "created": made["created"],
    }
    assert len(set(made["codes"])) == 3
    listed = await console.get(CODES, as_=OPERATOR)
    assert {one["display"] for one in listed.json["codes"]} == {
        f"····-{code[-4:]}" for code in made["codes"]
    }
    newest = listed.json["codes"][0]
    assert newest == {
        "id": newest["id"],
        "batch": made["batch"],
        "display": f"····-{made['codes'][-1][-4:]}",
        "amount": "5.00",
        "amount_nano": 5 * NANO,
        "status": "open",
        "note": "spring",
        "created": made["created"],
        "created_by": OPERATOR,
        "expires": "2999-01-01T00:00:00.000Z",
        "redeemed": None,
        "redeemed_by": None,
        "voided": None,
    }
    for code in made["codes"]:
        for text in (code, code.replace("-", "")):
            assert text.encode() not in listed.body
            assert find_bytes(console.folder, text) == []


async def test_a_repeated_request_makes_none_and_tells_the_batch(console: Console) -> None:
    body = {"amount": "5", "count": 2}
    first = await console.post(CODES, body, as_=OPERATOR, key="form-1")
    again = await console.post(CODES, body, as_=OPERATOR, key="form-1")
    assert again.refusal == (409, "already_done", None)
    assert again.error["batch"] == first.json["batch"]
    assert not any(code.encode() in again.body for code in first.json["codes"])
    other = await console.post(CODES, {"amount": "6", "count": 2}, as_=OPERATOR, key="form-1")
    assert other.refusal == (409, "idempotency_conflict", None)
    assert len(await list_codes(console)) == 2


async def test_of_a_request_sent_20_times_at_once_one_makes_codes(console: Console) -> None:
    await console.sign_in(OPERATOR)
    body = {"amount": "5", "count": 1}
    replies = await asyncio.gather(
        *(console.post(CODES, body, as_=OPERATOR, key="form") for _ in range(20))
    )
    assert sorted(reply.status for reply in replies) == [201] + [409] * 19
    assert len(await list_codes(console)) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": 1}, "amount"),
        ({"amount": "5"}, "count"),
        ({"amount": 5, "count": 1}, "amount"),
        ({"amount": "0", "count": 1}, "amount"),
        ({"amount": "-5", "count": 1}, "amount"),
        ({"amount": "5", "count": 0}, "count"),
        ({"amount": "5", "count": 1001}, "count"),
        ({"amount": "5", "count": 1, "expires": "2001-01-01"}, "expires"),
        ({"amount": "5", "count": 1, "note": "x" * 501}, "note"),
    ],
)
async def test_what_makes_no_sense_is_refused_by_field(
    console: Console, body: dict[str, object], field: str
) -> None:
    reply = await console.post(CODES, body, as_=OPERATOR, key="k")
    assert reply.refusal == (400, "invalid_field", field)
    mended = await console.post(CODES, {"amount": "5", "count": 1}, as_=OPERATOR, key="k")
    assert mended.status == 201, "a refusal is not kept as the reply of its key"


@each_row("path", [CODES, REDEEM])
async def test_what_moves_money_needs_an_idempotency_key(console: Console, path: str) -> None:
    reply = await console.post(path, {"code": UNKNOWN}, as_=OPERATOR)
    assert reply.refusal == (400, "idempotency_key_missing", None)
    for key in ("k" * 201, "sch\u00f6n"):
        sent = {"Idempotency-Key": key}
        reply = await console.post(path, {"code": UNKNOWN}, as_=OPERATOR, headers=sent)
        assert reply.refusal == (400, "invalid_field", None)


@each_row(
    ("method", "rest"), [("GET", ""), ("POST", ""), ("POST", "/x/void"), ("POST", "/void-batch")]
)
async def test_holders_do_not_know_of_the_codes(console: Console, method: str, rest: str) -> None:
    reply = await console.ask(method, CODES + rest, as_=HOLDER, key="k")
    assert reply.refusal == (404, "not_found", None)


# ---- redeeming -----------------------------------------------------------------------------------


async def test_a_code_is_redeemed_once_and_spent_at_once(console: Console) -> None:
    (code,) = (await make(console))["codes"]
    reply = await redeem(console, f" {code.replace('-', ' ').lower()} ")
    assert reply.status == 200
    entry = reply.json["entry"]
    assert (entry["kind"], entry["amount"], entry["account"]) == ("code", "5.00", HOLDER)
    assert entry["note"] == f"code ····{code[-4:]}"
    assert reply.json["balance_nano"] == entry["balance_after_nano"] == CREDIT_NANO + 5 * NANO
    assert reply.json["balance"] == "105.00"
    key = (await console.post(f"{API}/keys", {})).json["secret"]
    assert (await console.complete(key)).headers["x-gateway-balance"] == "105.00"
    (listed,) = await list_codes(console)
    assert (listed["status"], listed["redeemed_by"]) == ("redeemed", HOLDER)
    others, own = await redeem(console, code, as_=OTHER), await redeem(console, code)
    assert others.refusal == own.refusal == (400, "code_invalid", "code")
    told = r"You redeemed this code on \d{4}-\d\d-\d\d \d\d:\d\d UTC; it works once\."
    assert re.fullmatch(told, own.error["message"])
    unknown = await redeem(console, UNKNOWN, as_=OTHER)
    assert others.error["message"] == unknown.error["message"], "nobody else is told"


async def test_a_repeated_request_credits_nothing_again(console: Console) -> None:
    (code,) = (await make(console))["codes"]
    first = await redeem(console, code, key="form")
    again = await redeem(console, code, key="form")
    assert "Idempotent-Replay" not in first.headers
    assert again.headers["Idempotent-Replay"] == "true"
    assert (again.status, again.body) == (200, first.body)
    assert (await redeem(console, code, key="form-2")).refusal == (400, "code_invalid", "code")
    assert read_balance(console) == CREDIT_NANO + 5 * NANO


async def test_of_100_who_race_one_is_credited(tmp_path: Path) -> None:
    """Ten accounts send ten requests each, all at once and with different keys."""
    names = [f"racer-{number}" for number in range(10)]

    def seed(books: Any) -> None:
        for name in names:
            books.accounts.create(name, credit_nano=0, operator=False)

    async with open_console(tmp_path, seed=seed) as console:
        (code,) = (await make(console))["codes"]
        for name in names:
            await console.sign_in(name)
        replies = await asyncio.gather(
            *(redeem(console, code, as_=name) for name in names for _ in range(10))
        )
        assert sum(reply.status == 200 for reply in replies) == 1
        assert sum(read_balance(console, name) for name in names) == 5 * NANO
        entries = query(console.database, "SELECT amount_nano FROM entries WHERE kind = 'code'")
        assert entries == [(5 * NANO,)]


async def test_unknown_used_void_and_expired_are_one_refusal(console: Console) -> None:
    used, void, expired = (await make(console, 3))["codes"]
    assert (await redeem(console, used, as_=OTHER)).status == 200
    ids = {one["display"][-4:]: one["id"] for one in await list_codes(console)}
    await console.post(f"{CODES}/{ids[void[-4:]]}/void", as_=OPERATOR)
    with console.open_books() as books, books.changing() as connection:
        connection.execute("UPDATE codes SET expires_ms = 5 WHERE id = ?", (ids[expired[-4:]],))
    replies = [await redeem(console, code) for code in (used, void, expired, UNKNOWN, "x", "é")]
    assert {reply.refusal for reply in replies} == {(400, "code_invalid", "code")}
    assert len({reply.error["message"] for reply in replies}) == 1
    assert read_balance(console) == CREDIT_NANO


@each_row("code", [None, "", 5, ["x"]])
async def test_a_code_is_a_text(console: Console, code: object) -> None:
    assert (await redeem(console, code)).refusal == (400, "invalid_field", "code")


async def test_codes_are_tried_ten_times_an_hour(console: Console) -> None:
    right = (await make(console, 12))["codes"]
    for code in right[:11]:
        assert (await redeem(console, code)).status == 200, "what is right is no guess"
    for _ in range(TRIES):
        assert (await redeem(console, UNKNOWN)).status == 400
    refused = await redeem(console, right[11])
    assert refused.refusal == (429, "too_many_tries", None)
    seconds = refused.error["retry_after_seconds"]
    assert 3500 < seconds <= 3600
    assert refused.headers["Retry-After"] == str(seconds)
    assert (await redeem(console, right[11], as_=OTHER)).status == 200, "others are not kept out"


async def test_a_refused_try_is_no_reply_that_is_kept(console: Console) -> None:
    """A refused try is not stored: the same key and code work later if the code was made since."""
    assert (await redeem(console, UNKNOWN, key="form")).status == 400
    with console.open_books() as books, books.changing() as connection:
        connection.execute(
            "INSERT INTO codes (id, batch, digest, last4, amount_nano, note, created_by, created_ms)"
            " VALUES ('code_1', 'batch_1', ?, 'abcd', ?, '', 'operator', 1)",
            (codes.digest(UNKNOWN), NANO),
        )
    assert query(console.database, "SELECT count(*) FROM replays") == [(0,)]
    again = await redeem(console, UNKNOWN, key="form")
    assert (again.status, "Idempotent-Replay" in again.headers) == (200, False)


# ---- listing and voiding -------------------------------------------------------------------------


async def test_codes_are_filtered_and_paged(console: Console) -> None:
    first, second = await make(console, 4), await make(console, 3)
    await redeem(console, first["codes"][0])
    assert [one["redeemed_by"] for one in await list_codes(console, "?status=redeemed")] == [HOLDER]
    assert len(await list_codes(console, "?status=open")) == 6
    assert len(await list_codes(console, f"?status=open&batch={first['batch']}")) == 3
    assert await list_codes(console, "?batch=batch_x") == []
    everything = [one["id"] for one in await list_codes(console)]
    assert len(everything) == 7
    seen, target = [], f"{CODES}?limit=3"
    while target:
        page = await console.get(target, as_=OPERATOR)
        assert page.json["count"] == 7
        seen += [one["id"] for one in page.json["codes"]]
        target = page.headers.get("Link", "").removeprefix("<").removesuffix('>; rel="next"')
    assert seen == everything
    assert {one["batch"] for one in (await list_codes(console))[:3]} == {second["batch"]}
    for wrong, field in (("?status=lost", "status"), ("?cursor=WzFd", "cursor")):
        reply = await console.get(CODES + wrong, as_=OPERATOR)
        assert reply.refusal == (400, "invalid_field", field)


async def test_a_code_is_voided(console: Console) -> None:
    code, used = (await make(console, 2))["codes"]
    await redeem(console, used)
    ids = {one["display"][-4:]: one["id"] for one in await list_codes(console)}
    path = f"{CODES}/{ids[code[-4:]]}/void"
    voided = await console.post(path, as_=OPERATOR)
    assert (voided.status, voided.json["status"]) == (200, "void")
    assert (await console.post(path, {}, as_=OPERATOR)).body == voided.body
    refused = await console.post(f"{CODES}/{ids[used[-4:]]}/void", as_=OPERATOR)
    assert refused.refusal == (409, "code_redeemed", None)
    unknown = await console.post(f"{CODES}/code_x/void", as_=OPERATOR)
    assert unknown.refusal == (404, "not_found", None)
    assert (await redeem(console, code)).refusal == (400, "code_invalid", "code")


async def test_what_is_open_of_a_batch_is_voided(console: Console) -> None:
    made, other = await make(console, 3), await make(console, 1)
    await redeem(console, made["codes"][0])
    body = {"batch": made["batch"]}
    for count in (2, 0):
        reply = await console.post(f"{CODES}/void-batch", body, as_=OPERATOR)
        assert (reply.status, reply.json) == (200, {"voided": count})
    (left,) = await list_codes(console, "?status=open")
    assert left["batch"] == other["batch"]
    for wrong, refusal in (
        ({"batch": "batch_x"}, (404, "not_found", None)),
        ({}, (400, "invalid_field", "batch")),
    ):
        reply = await console.post(f"{CODES}/void-batch", wrong, as_=OPERATOR)
        assert reply.refusal == refusal


async def test_who_did_what_is_noted(console: Console) -> None:
    made = await make(console, 2, note="spring")
    await redeem(console, made["codes"][0])
    await redeem(console, UNKNOWN)
    await console.post(f"{CODES}/void-batch", {"batch": made["batch"]}, as_=OPERATOR)
    ids = {one["display"][-4:]: one["id"] for one in await list_codes(console)}
    last4 = made["codes"][0][-4:]
    rows = query(
        console.database,
        "SELECT actor, action, account, target, detail, address FROM events"
        " WHERE action LIKE 'code.%' ORDER BY id",
    )
    assert rows == [
        (OPERATOR, "code.make", None, made["batch"], "2 of 5.00: spring", "127.0.0.1"),
        (HOLDER, "code.redeem", HOLDER, ids[last4], f"5.00: code ····{last4}", "127.0.0.1"),
        (OPERATOR, "code.void", None, made["batch"], "1 open", "127.0.0.1"),
    ]


async def test_a_code_stands_in_no_file_of_a_serving_process(tmp_path: Path) -> None:
    """`process.stop` searches logs, database and write-ahead log for the code."""
    async with start_console(tmp_path) as console:
        assert console.process is not None
        made = await make(console, 3)
        for code in made["codes"]:
            console.process.canaries += [code.encode(), code.replace("-", "").encode()]
        assert (await redeem(console, made["codes"][0])).status == 200
        assert (await redeem(console, made["codes"][0])).status == 400
        assert console.process.find_canaries() == []
