"""A holder's entries: the balance with what is held, and the days of a download."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.console.lists import CHUNK_ROWS
from tests.console.calls import NOON_MS, Past, add_calls, end_call
from tests.console.history import open_history, read_csv
from tests.console.kit import API, HOLDER, Console


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_history(tmp_path) as console:
        yield console


async def test_days_of_entries_are_those_they_were_made_on(console: Console) -> None:
    day = "2024-10-04"
    inside = read_csv(await console.get(f"{API}/billing.csv?from={day}&to={day}"))
    outside = read_csv(await console.get(f"{API}/billing.csv?from=2024-10-05"))
    everything = read_csv(await console.get(f"{API}/billing.csv"))
    assert len(inside) > 2 * CHUNK_ROWS
    assert {row["created"][:10] for row in inside} == {day}
    assert len(outside) == 1  # what the account began with
    assert sorted(int(row["id"]) for row in outside + inside) == sorted(
        int(row["id"]) for row in everything
    )
    assert read_csv(await console.get(f"{API}/billing.csv?to=2024-10-03")) == []


async def test_billing_shows_the_balance_and_what_is_held(console: Console) -> None:
    with console.open_books() as books:
        key = books.keys.read_all(HOLDER)[0].id
    pending = Past(key, NOON_MS, None)
    (request_id,) = add_calls(console.database, console.account_id(HOLDER), [pending])
    body = (await console.get(f"{API}/billing?limit=1")).json
    (entry,) = body["entries"]
    assert body["balance_nano"] == entry["balance_after_nano"]
    assert body["held_nano"] == 1000
    assert body["available_nano"] == body["balance_nano"] - 1000
    (call,) = (await console.get(f"{API}/activity?request_id=+{request_id}+")).json["calls"]
    assert (call["state"], call["ended"], call["status"], call["total_ms"]) == (
        "pending",
        None,
        None,
        None,
    )
    rows = read_csv(await console.get(f"{API}/activity.csv?request_id={request_id}"))
    assert [(row["request_id"], row["ended"]) for row in rows] == [(request_id, "")]
    end_call(
        console.database, console.account_id(HOLDER), request_id, replace(pending, ended_ms=NOON_MS)
    )
