"""The balance and its entries; top-up codes: operators make them, each is redeemed once."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.console.lists import CHUNK_ROWS
from gateway.money import NANO
from gateway.times import format_day
from tests.console.calls import NOON_MS, Past, add_calls, end_call
from tests.console.history import open_history, read_csv
from tests.console.kit import (
    API,
    CREDIT_NANO,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    execute,
    find_bytes,
    open_console,
    read_pages,
    start_console,
)

CODES: Final = f"{API}/codes"
REDEEM: Final = f"{API}/billing/redeem"
UNKNOWN: Final = "2222-2222-2222-2222"
INVALID: Final = (400, "code_invalid", "code")
TRIES: Final = 10

_keys = itertools.count()


# ---- entries -------------------------------------------------------------------------------------


async def test_billing_shows_the_balance_and_what_is_held(tmp_path: Path) -> None:
    """And the days of a download are those on which the entries were made."""
    async with open_history(tmp_path) as console:
        with console.open_books() as books:
            key = books.keys.read_all(HOLDER)[0].id
        pending = Past(key, NOON_MS, None)
        account_id = console.account_id(HOLDER)
        (request_id,) = add_calls(console.database, account_id, [pending])
        body = (await console.get(f"{API}/billing?limit=1")).json
        (entry,) = body["entries"]
        assert body["balance_nano"] == entry["balance_after_nano"]
        assert (body["held_nano"], body["available_nano"]) == (1000, body["balance_nano"] - 1000)
        (call,) = (await console.get(f"{API}/activity?request_id=+{request_id}+")).json["calls"]
        shown = (call["state"], call["ended"], call["status"], call["total_ms"])
        assert shown == ("pending", None, None, None)
        rows = read_csv(await console.get(f"{API}/activity.csv?request_id={request_id}"))
        assert [(row["request_id"], row["ended"]) for row in rows] == [(request_id, "")]
        end_call(console.database, account_id, request_id, replace(pending, ended_ms=NOON_MS))
        inside, outside, before, everything = [
            read_csv(await console.get(f"{API}/billing.csv?{days}"))
            for days in ("from=2024-10-04&to=2024-10-04", "from=2024-10-05", "to=2024-10-03", "")
        ]
    assert len(inside) > 2 * CHUNK_ROWS
    assert {row["created"][:10] for row in inside} == {"2024-10-04"}
    assert (len(outside), before) == (1, []), "what the account began with"
    assert inside + outside == everything


# ---- operators: the books of all accounts --------------------------------------------------------

DAY: Final = "from=2024-10-04&to=2024-10-04"
MOVES: Final = ("opening", "credit", "codes", "charges", "corrections")


async def test_operators_read_the_books_of_all_accounts(tmp_path: Path) -> None:
    """Entries of past days are found behind later ones, in pages and as CSV."""
    async with open_history(tmp_path) as console:
        ask = partial(console.get, as_=OPERATOR)
        with console.open_books() as books:
            books.entries.credit(OTHER, 7, note="later")
        every, inside, of_other = [
            await read_pages(console, f"{API}/entries?{query}", "entries", as_=OPERATOR)
            for query in ("limit=200", f"limit=200&{DAY}", f"account={OTHER}&kind=credit")
        ]
        rows = read_csv(await ask(f"{API}/entries.csv"))
        assert [str(one["id"]) for one in every] == [row["id"] for row in rows]
        assert {one["account"] for one in every} == {HOLDER, OPERATOR, OTHER}
        assert inside == [one for one in every if one["created"] < "2024-10-05"]
        assert 2 * CHUNK_ROWS < len(inside) == len(every) - 4
        assert [one["note"] for one in of_other] == ["later", "not yours", ""]
        statement = (await ask(f"{API}/statement?{DAY}")).json
        lines = statement["rows"]
        totals = {name: str(value) for name, value in statement["totals"].items()}
        assert [line["account"] for line in lines] == [HOLDER, OTHER]
        for line in (*lines, statement["totals"]):
            assert sum(line[f"{name}_nano"] for name in MOVES) == line["closing_nano"]
        sums = {name: value for name, value in totals.items() if name.endswith("_nano")}
        assert sums == {name: str(sum(line[name] for line in lines)) for name in sums}
        pages = await read_pages(console, f"{API}/statement?{DAY}&limit=1", "rows", as_=OPERATOR)
        assert pages == lines
        *written, last = read_csv(await ask(f"{API}/statement.csv?{DAY}"))
        assert last == {"account": "total", **totals}
        path = f"statement.csv?{DAY}&account={OTHER}"
        assert read_csv(await ask(f"{API}/{path}")) == written[1:]
        now = (await ask(f"{API}/statement")).json
        today = format_day(int(time.time()) // 86_400)
        assert (now["from"], now["to"], now["count"]) == (f"{today[:8]}01", today, 3)
        assert [one["opening"] for one in now["rows"]][::2] == [one["closing"] for one in lines]
        for path in ("entries", "entries.csv", "statement", "statement.csv"):
            assert (await console.get(f"{API}/{path}")).status == 404


# ---- making codes --------------------------------------------------------------------------------


async def make(console: Console, count: int = 1, **terms: Any) -> dict[str, Any]:
    body = {"amount": "5", "count": count, **terms}
    reply = await console.post(CODES, body, as_=OPERATOR, key=f"make-{next(_keys)}")
    assert reply.status == 201, reply.body
    made: dict[str, Any] = reply.json
    return made


async def redeem(
    console: Console, code: object, *, as_: str = HOLDER, key: str | None = None
) -> Reply:
    return await console.post(REDEEM, {"code": code}, as_=as_, key=key or f"redeem-{next(_keys)}")


async def list_codes(console: Console, query: str = "") -> list[dict[str, Any]]:
    return await read_pages(console, f"{CODES}{query}", "codes", as_=OPERATOR)


async def find_ids(console: Console) -> dict[str, str]:
    """Return the ids of all codes by their last symbols."""
    return {one["display"][-4:]: one["id"] for one in await list_codes(console)}


def read_balance(console: Console, account: str = HOLDER) -> int:
    with console.open_books() as books:
        return books.accounts.read(account).balance_nano


async def test_codes_are_made_and_shown_once(console: Console) -> None:
    made = await make(console, 3, expires="2999-01-01", note="spring")
    far, shown = "2999-01-01T00:00:00.000Z", made["codes"]
    assert made == {
        "batch": made["batch"], "codes": shown, "amount": "5.00", "amount_nano": 5 * NANO,
        "expires": far, "created": made["created"],
    }  # fmt: skip
    assert len(set(shown)) == 3
    listed = await list_codes(console)
    assert {one["display"] for one in listed} == {f"····-{code[-4:]}" for code in shown}
    assert listed[0] == {
        "id": listed[0]["id"], "batch": made["batch"], "display": f"····-{shown[-1][-4:]}",
        "amount": "5.00", "amount_nano": 5 * NANO, "status": "open", "note": "spring",
        "created": made["created"], "created_by": OPERATOR, "expires": far, "redeemed": None,
        "redeemed_by": None, "voided": None,
    }  # fmt: skip
    for text in (*shown, *(code.replace("-", "") for code in shown)):
        assert text not in str(listed)
        assert find_bytes(console.folder, text) == []


async def test_a_repeated_request_makes_none_and_tells_the_batch(console: Console) -> None:
    """One of 20 that are sent at once makes codes."""
    await console.sign_in(OPERATOR)
    body = {"amount": "5", "count": 2}
    replies = await asyncio.gather(
        *(console.post(CODES, body, as_=OPERATOR, key="form") for _ in range(20))
    )
    first, *others = sorted(replies, key=lambda one: one.status)
    assert first.status == 201
    for again in others:
        assert again.refusal == (409, "already_done", None)
        assert again.error["batch"] == first.json["batch"]
        assert not any(code.encode() in again.body for code in first.json["codes"])
    other = await console.post(CODES, {**body, "amount": "6"}, as_=OPERATOR, key="form")
    assert other.refusal == (409, "idempotency_conflict", None)
    assert len(await list_codes(console)) == 2


# ---- redeeming -----------------------------------------------------------------------------------


async def test_a_code_is_redeemed_once_and_spent_at_once(console: Console) -> None:
    (code,) = (await make(console))["codes"]
    text = f" {code.replace('-', ' ').lower()} "
    reply, again = [await redeem(console, text, key="form") for _ in range(2)]
    assert (again.status, again.body) == (200, reply.body)
    assert ["Idempotent-Replay" in one.headers for one in (reply, again)] == [False, True]
    entry = reply.json["entry"]
    assert (entry["kind"], entry["amount"], entry["account"]) == ("code", "5.00", HOLDER)
    assert entry["note"] == f"code ····{code[-4:]}"
    assert reply.json["balance_nano"] == entry["balance_after_nano"] == CREDIT_NANO + 5 * NANO
    key = (await console.post(f"{API}/keys", {})).json["secret"]
    assert (await console.complete(key)).headers["x-gateway-balance"] == "105.00"
    (listed,) = await list_codes(console)
    assert (listed["status"], listed["redeemed_by"]) == ("redeemed", HOLDER)
    others, own = await redeem(console, code, as_=OTHER), await redeem(console, code)
    assert others.refusal == own.refusal == INVALID
    told = r"You redeemed this code on \d{4}-\d\d-\d\d \d\d:\d\d UTC; it works once\."
    assert re.fullmatch(told, own.error["message"])
    unknown = await redeem(console, UNKNOWN, as_=OTHER)
    assert others.error["message"] == unknown.error["message"], "nobody else is told"


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
        entries = execute(console, "SELECT amount_nano FROM entries WHERE kind = 'code'")
        assert entries == [(5 * NANO,)]


async def test_an_open_code_is_voided(console: Console) -> None:
    used, void = (await make(console, 2))["codes"]
    assert (await redeem(console, used, as_=OTHER)).status == 200
    ids = await find_ids(console)
    path = f"{CODES}/{ids[void[-4:]]}/void"
    voided, again = [await console.post(path, as_=OPERATOR) for _ in range(2)]
    assert (voided.status, voided.json["status"], again.body) == (200, "void", voided.body)
    for code_id, refusal in (
        (ids[used[-4:]], (409, "code_redeemed", None)),
        ("code_x", (404, "not_found", None)),
    ):
        refused = await console.post(f"{CODES}/{code_id}/void", as_=OPERATOR)
        assert refused.refusal == refusal
    assert {(await redeem(console, code)).refusal for code in (void, "x", "é")} == {INVALID}


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


# ---- listing and voiding -------------------------------------------------------------------------


async def test_codes_are_filtered_paged_and_voided_by_batch(console: Console) -> None:
    first, second = await make(console, 4, note="spring"), await make(console, 3)
    await redeem(console, first["codes"][0])
    await redeem(console, UNKNOWN)
    assert [one["redeemed_by"] for one in await list_codes(console, "?status=redeemed")] == [HOLDER]
    assert len(await list_codes(console, f"?status=open&batch={first['batch']}")) == 3
    assert await list_codes(console, "?batch=batch_x") == []
    everything = await list_codes(console)
    assert await list_codes(console, "?limit=3") == everything
    assert [one["batch"] for one in everything] == [second["batch"]] * 3 + [first["batch"]] * 4
    for count in (3, 0):
        body = {"batch": first["batch"]}
        reply = await console.post(f"{CODES}/void-batch", body, as_=OPERATOR)
        assert (reply.status, reply.json) == (200, {"voided": count})
    left = await list_codes(console, "?status=open")
    assert {one["batch"] for one in left} == {second["batch"]}
    unknown = await console.post(f"{CODES}/void-batch", {"batch": "batch_x"}, as_=OPERATOR)
    assert unknown.refusal == (404, "not_found", None)
    last4 = first["codes"][0][-4:]
    code_id = (await find_ids(console))[last4]
    columns = "actor, action, account, target, detail, address"
    assert execute(
        console, f"SELECT {columns} FROM events WHERE action LIKE 'code.%' ORDER BY id"
    ) == [
        (OPERATOR, "code.make", None, first["batch"], "4 of 5.00: spring", "127.0.0.1"),
        (OPERATOR, "code.make", None, second["batch"], "3 of 5.00", "127.0.0.1"),
        (HOLDER, "code.redeem", HOLDER, code_id, f"5.00: code ····{last4}", "127.0.0.1"),
        *((OPERATOR, "code.void", None, first["batch"], f"{n} open", "127.0.0.1") for n in (3, 0)),
    ]


@pytest.mark.slow
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
