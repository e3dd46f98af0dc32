"""Numbers of keys, budgets and calls that are bounded, and what a page may cost. `played/` has the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.admin import keys
from gateway.extras.console.keys import MAX_LIVE_KEYS
from tests.extras.console.history import open_history, read_csv
from tests.extras.console.kit import API, Console, read_pages
from tests.support.served import HOLDER, OPERATOR, OTHER, Reply


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_history(tmp_path) as console:
        yield console


async def test_slow_calls_are_looked_for_in_parts(
    history: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No index knows how long calls took, so a page looks at so many and the next one at older ones."""
    monkeypatch.setattr("gateway.extras.console.calls.SLOW_CALLS", 20)
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
    slowest = (await history.get(f"{API}/activity?{chosen}&sort=slowest&limit=2")).json["calls"]
    assert slowest == sorted(calls[:20], key=lambda one: one["total_ms"])[:-3:-1]


async def test_keys_that_work_are_a_bounded_number(console: Console) -> None:
    with console.open_books() as books, books.changing():
        *_, last = [keys.add_key(books, HOLDER) for _ in range(MAX_LIVE_KEYS)]
    path = f"{API}/keys"
    assert (await console.post(path, {})).refusal == (409, "too_many_keys", None)
    assert (await console.post(path, {}, as_=OPERATOR)).status == 201
    await console.post(f"{path}/{last.key.id}/revoke")
    assert (await console.post(path, {})).status == 201


async def test_budgets_have_names_of_their_own_and_a_bounded_number(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.console.keys.MAX_BUDGETS", 2)

    async def add(as_: str = HOLDER, **changed: Any) -> Reply:
        body = {"name": "team", "amount": "100", "period": "month", **changed}
        return await console.post(f"{API}/budgets", body, as_=as_, key=str(changed))

    await add()
    assert (await add(amount="7")).refusal == (409, "name_taken", "name")
    assert (await add(as_=OTHER)).status == 201
    assert (await add(name="b")).status == 201
    assert (await add(name="c")).refusal == (409, "too_many_budgets", None)
