"""Operators see what providers bill; holders see nothing of it, wherever they look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.times import DAY_MS
from tests.console.calls import NOON_MS, TODAY, Past, add_calls
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console

RANGE: Final = "from=2024-10-01&to=2024-10-10"
SECRET_WORDS: Final = ("provider_cost", "margin", "reported", "costed", "4242", "1717")
on_one_loop: Final = pytest.mark.asyncio(loop_scope="module")


def past(
    key_id: str, model: str, cost_nano: int, cost: int | None = None, reported: int | None = None
) -> Past:
    made = Past(key_id, NOON_MS - 5, NOON_MS, model, cost_nano)
    return replace(made, provider_cost_nano=cost, reported_cost_nano=reported)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with open_console(tmp_path_factory.mktemp("costs")) as console:
        with console.open_books() as books:
            mine = keys.add_key(books, HOLDER).key.id
            foreign = keys.add_key(books, OTHER).key.id
        calls = [
            past(mine, "large", 9000, 4242, 1717),
            past(mine, "large", 10),
            past(mine, "plain", 7),
            past(mine, "lossy", 5, 6),
        ]
        add_calls(console.database, console.account_id(HOLDER), calls)
        others = [past(foreign, "large", 100, 50)]
        add_calls(console.database, console.account_id(OTHER), others)
        yield console


async def ask(console: Console, query: str) -> dict[str, Any]:
    reply = await console.get(f"{API}/costs?{query}", as_=OPERATOR)
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.json
    return body


@on_one_loop
async def test_operators_see_the_margin_of_each_model_over_all_accounts(console: Console) -> None:
    """The least margin first; models of unknown cost last."""
    body = await ask(console, RANGE)
    names = ("requests", "charged_nano", "costed_requests", "provider_cost_nano", "margin_nano",
             "reported_requests", "reported_cost_nano", "reported_excess_nano")  # fmt: skip
    rows = {row["model"]: tuple(row[name] for name in names) for row in body["rows"]}
    assert list(rows) == ["lossy", "large", "plain"]
    assert rows == {
        "lossy": (1, 5, 1, 6, -1, 0, None, None),
        "large": (3, 9110, 2, 4292, 4808, 1, 1717, 1717 - 4242),
        "plain": (1, 7, 0, None, None, 0, None, None),
    }
    assert tuple(body["totals"][name] for name in names) == (
        5, 9122, 3, 4298, 4807, 1, 1717, 1717 - 4242,
    )  # fmt: skip
    assert (body["currency"], body["from"], body["to"]) == ("USD", "2024-10-01", "2024-10-10")


@on_one_loop
async def test_the_range_is_that_of_usage(console: Console) -> None:
    empty = await ask(console, "from=2024-10-05&to=2024-10-06")
    assert (empty["rows"], empty["totals"]["requests"]) == ([], 0)
    assert empty["totals"]["margin"] is None
    long = await console.get(f"{API}/costs?from=2020-01-01&to=2024-10-10", as_=OPERATOR)
    assert long.refusal == (400, "range_too_long", "from")
    assert TODAY == NOON_MS // DAY_MS


@on_one_loop
async def test_holders_see_no_costs(console: Console) -> None:
    refused = await console.get(f"{API}/costs?{RANGE}")
    assert refused.status == 404
    places = [
        *(f"usage?{RANGE}&by={by}" for by in ("day", "hour", "model", "key")),
        *(f"usage.csv?{RANGE}&by={by}" for by in ("day", "model")),
        *("overview", "activity", "activity.csv", "billing", "billing.csv", "keys", "models"),
    ]
    for place in places:
        reply = await console.get(f"{API}/{place}")
        assert reply.status == 200, place
        text = reply.body.decode()
        assert [word for word in SECRET_WORDS if word in text] == [], place
