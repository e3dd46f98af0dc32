"""Requests in a list and one by one: holders see their own, operators those of all accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.ledger.call_records import ENDINGS
from tests.console.history import open_history, read_csv
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console
from tests.support.rows import each_row


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_history(tmp_path) as console:
        yield console


@each_row("sent", ["%00", "%FF", "%ED%A0%80", "%22", "'", "x" * 2000])
async def test_odd_filters_find_nothing(console: Console, sent: str) -> None:
    for name in ("request_id", "key", "model"):
        reply = await console.get(f"{API}/activity?{name}={sent}")
        assert (reply.status, reply.json["count"], reply.json["calls"]) == (200, 0, [])


async def test_what_another_account_did_is_not_found(console: Console) -> None:
    theirs = (await console.get(f"{API}/activity", as_=OTHER)).json["calls"]
    assert len(theirs) == 1
    for query in (f"request_id={theirs[0]['request_id']}", f"key={theirs[0]['key']}"):
        assert (await console.get(f"{API}/activity?{query}")).json["count"] == 0
        assert (await console.get(f"{API}/activity?{query}", as_=OTHER)).json["count"] == 1
        assert read_csv(await console.get(f"{API}/activity.csv?{query}")) == []


async def test_operators_see_the_calls_of_all_accounts(console: Console) -> None:
    own = (await console.get(f"{API}/activity?limit=1")).json
    theirs = (await console.get(f"{API}/activity?limit=1", as_=OTHER)).json
    everything = (await console.get(f"{API}/activity?limit=1", as_=OPERATOR)).json
    assert everything["count"] == own["count"] + theirs["count"]
    for name, count in ((HOLDER, own["count"]), (OTHER, theirs["count"]), (OPERATOR, 0)):
        query = f"account={name}&limit=200"
        listed = (await console.get(f"{API}/activity?{query}", as_=OPERATOR)).json
        assert listed["count"] == count
        assert {call["account"] for call in listed["calls"]} == ({name} if count else set())
        rows = read_csv(await console.get(f"{API}/activity.csv?{query}", as_=OPERATOR))
        assert len(rows) == count
    rows = read_csv(await console.get(f"{API}/activity.csv", as_=OPERATOR))
    assert {row["account"] for row in rows} == {HOLDER, OTHER}


async def test_an_account_is_chosen_by_operators_alone(console: Console) -> None:
    refused = await console.get(f"{API}/activity?account=nobody", as_=OPERATOR)
    assert refused.refusal == (400, "invalid_field", "account")
    refused = await console.get(f"{API}/activity.csv?account=nobody", as_=OPERATOR)
    assert refused.refusal == (400, "invalid_field", "account")
    for name in (OTHER, "nobody"):
        listed = (await console.get(f"{API}/activity?account={name}")).json
        assert {call["account"] for call in listed["calls"]} == {HOLDER}


@each_row(
    ("query", "field"),
    [("outcome=odd", "outcome"), ("status=600", "status"), ("status=x", "status")],
)
async def test_wrong_filters_are_named(console: Console, query: str, field: str) -> None:
    refused = await console.get(f"{API}/activity?{query}")
    assert refused.refusal == (400, "invalid_field", field)


async def test_outcomes_have_one_name_in_list_and_filter(console: Console) -> None:
    listed = (await console.get(f"{API}/activity?outcome=complete&status=200&limit=1")).json
    assert list(listed["outcomes"]) == ["failed", *ENDINGS]
    (call,) = listed["calls"]
    assert call["outcome_label"] == listed["outcomes"]["complete"] == "done"
    assert (await console.get(f"{API}/activity?outcome=failed")).json["count"] == 0
    assert (await console.get(f"{API}/activity?provider=none")).json["count"] == 0


async def test_a_call_is_shown_to_its_holder_and_to_operators(console: Console) -> None:
    (theirs,) = (await console.get(f"{API}/activity", as_=OTHER)).json["calls"]
    url = f"{API}/activity/{theirs['request_id']}"
    told = (await console.get(url, as_=OTHER)).json
    assert (await console.get(url, as_=OPERATOR)).json == {**told, "failures": []}
    for name in ("request_id", "account", "key", "key_display", "cost_nano", "started", "ended"):
        assert told[name] == theirs[name], name
    assert (told["explanation"], told["ended_by"]) == ("The reply is complete.", "upstream")
    assert told["tokens"].startswith("input ")
    assert told["corrections"] == []
    for path, who in ((url, HOLDER), (f"{API}/activity/req_none", OPERATOR)):
        refused = await console.get(path, as_=who)
        assert refused.refusal == (404, "not_found", None)
    assert (await console.get(url, as_=None)).status == 401


async def test_a_receipt_of_the_console_is_that_of_the_api(console: Console) -> None:
    """Whoever made the call gets the same figures with the key alone."""
    made = await console.post(f"{API}/keys", {"name": "laptop"})
    reply = await console.complete(made.json["secret"])
    request_id = reply.headers["x-request-id"]
    target = f"/v1/receipts/{request_id}"
    headers = {"Authorization": f"Bearer {made.json['secret']}"}
    receipt = (await console.get(target, as_=None, headers=headers)).json
    told = (await console.get(f"{API}/activity/{request_id}")).json
    assert {name: told[name] for name in receipt} == receipt
    assert set(told) - set(receipt) == {"account", "key", "key_name", "key_display"}
