"""The balance and its entries; races and guesses of codes. `played/codes.txt` has their lives."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.console.lists import CHUNK_ROWS
from gateway.times import format_day
from tests.console.calls import NOON_MS, Past, add_calls, end_call
from tests.console.history import open_history, read_csv
from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    read_pages,
    start_console,
)

CODES: Final = f"{API}/codes"
REDEEM: Final = f"{API}/billing/redeem"
UNKNOWN: Final = "2222-2222-2222-2222"
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
        slowest = f"activity?key={key}&sort=slowest&from=2024-01-01&limit=200"
        assert None not in [
            one["total_ms"] for one in (await console.get(f"{API}/{slowest}")).json["calls"]
        ]
        rows = read_csv(await console.get(f"{API}/activity.csv?request_id={request_id}"))
        assert [(row["request_id"], row["ended"]) for row in rows] == [(request_id, "")]
        end_call(console.database, account_id, request_id, replace(pending, ended_ms=NOON_MS))
        inside, outside, before, everything = [
            read_csv(await console.get(f"{API}/billing.csv?{days}"))
            for days in (DAY, "from=2024-10-05", "to=2024-10-03", "")
        ]
        listed = await read_pages(console, f"{API}/billing?{DAY}&limit=200", "entries")
    assert [str(one["id"]) for one in listed] == [row["id"] for row in inside]
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


def read_balance(console: Console, account: str = HOLDER) -> int:
    with console.open_books() as books:
        return books.accounts.read(account).balance_nano


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
