"""Budgets in the console's API: their holders', and any for operators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, Reply, open_console
from tests.support.rows import each_row

BUDGETS: Final = f"{API}/budgets"
KEYS: Final = f"{API}/keys"
TEAM: Final = {"name": "team", "amount": "100", "period": "month"}


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as opened:
        yield opened


async def add(console: Console, *, as_: str = HOLDER, **changed: Any) -> Reply:
    return await console.post(BUDGETS, {**TEAM, **changed}, as_=as_, key=str(changed))


async def make_key(console: Console, **terms: Any) -> Any:
    reply = await console.post(KEYS, terms)
    assert reply.status == 201, reply.body
    return reply.json["key"]


async def test_a_budget_is_added_shown_changed_and_removed(console: Console) -> None:
    added = await add(console)
    assert added.status == 201
    budget = added.json
    assert (budget["name"], budget["period"], budget["account"]) == ("team", "month", HOLDER)
    assert (budget["amount"], budget["spent"], budget["remaining_nano"]) == (
        "100.00",
        "0.00",
        10**11,
    )
    assert budget["resets"].endswith("-01T00:00:00.000Z")
    listed = await console.get(BUDGETS)
    assert listed.json == {"count": 1, "budgets": [budget]}
    url = f"{BUDGETS}/{budget['id']}"
    same = await console.patch(url, {})
    assert same.json == budget
    changed = await console.patch(url, {"name": "crew", "amount": "5", "period": "day"})
    assert (changed.json["name"], changed.json["amount_nano"]) == ("crew", 5 * 10**9)
    assert (await console.delete(url)).status == 204
    assert (await console.get(BUDGETS)).json == {"count": 0, "budgets": []}
    assert (await console.delete(url)).status == 404


async def test_a_budget_is_added_once_for_one_idempotency_key(console: Console) -> None:
    first, again = await add(console), await add(console)
    assert again.json == first.json
    assert (await console.get(BUDGETS)).json["count"] == 1


async def test_keys_spend_from_a_budget_of_their_own_or_a_shared_one(console: Console) -> None:
    team = (await add(console)).json
    own = await make_key(console, budget_amount="5", budget_period="day")
    assert (own["budget"]["name"], own["budget"]["amount"]) == (None, "5.00")
    shared = await make_key(console, budget_id=team["id"])
    assert shared["budget"]["name"] == "team"
    listed = (await console.get(BUDGETS)).json["budgets"]
    assert [(one["name"], one["keys"]) for one in listed] == [("team", 1)], "no key's own"
    url = f"{KEYS}/{own['id']}"
    edited = await console.patch(url, {"budget_amount": "6", "budget_period": "week"})
    assert (edited.json["budget"]["id"], edited.json["budget"]["period"]) == (
        own["budget"]["id"],
        "week",
    )
    assert (await console.patch(url, {"name": "n"})).json["budget"] is not None
    assert (await console.patch(url, {"budget_id": None})).json["budget"] is None
    in_use = await console.delete(f"{BUDGETS}/{team['id']}")
    assert (in_use.status, in_use.json["error"]["code"]) == (409, "budget_in_use")


@each_row(
    ("body", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "10/day"}, "name"),
        ({"amount": "0"}, "amount"),
        ({"amount": "x"}, "amount"),
        ({"amount": None}, "amount"),
        ({"period": "year"}, "period"),
        ({"period": None}, "period"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_wrong_fields_of_a_budget_are_named(
    console: Console, body: dict[str, Any], field: str
) -> None:
    refused = await add(console, **body)
    assert (refused.status, refused.json["error"]["field"]) == (400, field)


@each_row(
    ("body", "status", "field"),
    [
        ({"budget_amount": "5"}, 400, "budget_period"),
        ({"budget_period": "day"}, 400, "budget_amount"),
        ({"budget_amount": "0", "budget_period": "day"}, 400, "budget_amount"),
        ({"budget_amount": "5", "budget_period": "year"}, 400, "budget_period"),
        ({"budget_amount": "5", "budget_period": "day", "budget_id": 1}, 400, "budget_id"),
        ({"budget_id": "1"}, 400, "budget_id"),
        ({"budget_id": 99}, 404, "budget_id"),
    ],
)
async def test_wrong_budgets_of_a_key_are_named(
    console: Console, body: dict[str, object], status: int, field: str
) -> None:
    refused = await console.post(KEYS, body)
    assert (refused.status, refused.json["error"]["field"]) == (status, field)


async def test_a_name_is_taken_once_in_an_account(console: Console) -> None:
    await add(console)
    taken = await add(console, amount="7")
    assert (taken.status, taken.json["error"]["code"]) == (409, "name_taken")
    assert taken.json["error"]["field"] == "name"
    assert (await add(console, as_=OTHER)).status == 201


async def test_budgets_of_others_are_unknown_to_holders(console: Console) -> None:
    theirs = (await add(console, as_=OTHER)).json
    url = f"{BUDGETS}/{theirs['id']}"
    assert (await console.get(BUDGETS)).json["count"] == 0
    for reply in (
        await console.patch(url, {"amount": "1", "period": "day"}),
        await console.delete(url),
        await console.post(KEYS, {"budget_id": theirs["id"]}),
        await console.get(f"{API}/accounts/{console.account_id(OTHER)}/budgets"),
        await console.patch(f"{BUDGETS}/01", {}),
    ):
        assert reply.status == 404


async def test_operators_manage_the_budgets_of_any_account(console: Console) -> None:
    url = f"{API}/accounts/{console.account_id(HOLDER)}/budgets"
    added = await console.post(url, TEAM, as_=OPERATOR, key="k")
    assert (added.status, added.json["account"]) == (201, HOLDER)
    assert (await console.get(url, as_=OPERATOR)).json["count"] == 1
    assert (await console.get(BUDGETS)).json["count"] == 1
    mine = f"{BUDGETS}/{added.json['id']}"
    edited = await console.patch(mine, {"amount": "1", "period": "day"}, as_=OPERATOR)
    assert edited.json["amount"] == "1.00"
    assert (await console.delete(mine, as_=OPERATOR)).status == 204


async def test_an_account_has_so_many_budgets(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.console.api.keys.MAX_BUDGETS", 2)
    assert [(await add(console, name=name)).status for name in ("a", "b")] == [201, 201]
    refused = await add(console, name="c")
    assert (refused.status, refused.json["error"]["code"]) == (409, "too_many_budgets")
