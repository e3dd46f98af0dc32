"""The messages of a round: its items as JSON, and its answer."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from gateway.errors import BalanceHeld, BudgetSpent, GatewayError, InsufficientBalance, RateLimited
from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.key_records import Allowance, Budget, KeyTerms, Rate, Spending, find_span
from gateway.ledger.postgres.serving.messages import (
    Declined,
    find_spendings,
    make_refusal,
    note_spent,
    read_answer,
    write_admissions,
    write_settlements,
)
from gateway.ledger.serving.store import Item, Report
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS, PRICE, TOKENS, admission, settlement, void
from tests.support.rows import each_row

TODAY = NOW_MS // DAY_MS
SPENDING = Spending(find_span("day", NOW_MS), 5)


def make_item(
    id_: str = "req_1", *, rate: Rate | None = None, budget: Budget | None = None
) -> Item:
    account = Account(7, "a", suspended=False, balance_nano=100)
    key = Key("key_1", account, KeyTerms(), Line("key_1"), budget=budget)
    asked = replace(admission(9, id_=id_, stream=True), key_rate=rate, expected_tokens=60)
    asked.full_nano, asked.full_below_nano = 12, 120
    return Item(Hold(asked, account, key, 9, budget=budget), insert=True, settlement=None)


def make_budget() -> Budget:
    return Budget(3, 7, "team", Allowance(1000, "day"), SPENDING)


def test_an_admission_says_all_that_its_row_has() -> None:
    budget = make_budget()
    items = [make_item("req_1", rate=Rate(1, 2, 3), budget=budget), make_item("req_2")]
    first, second = orjson.loads(write_admissions(items, {"req_2"}, NOW_MS + 7))
    assert first == {
        "place": 0,
        "id": "req_1",
        "account_id": 7,
        "key_id": "key_1",
        "budget_id": 3,
        "model": "demo/echo",
        "provider": "demo",
        "stream": 1,
        "hold_nano": 9,
        "full_nano": 12,
        "full_below_nano": 120,
        "started_ago_ms": 7,
        "price_id": PRICE.id,
        "key_rate": [1, 2, 3],
        "account_rate": [0, 0, 0],
        "expected_tokens": 60,
        "again": False,
    }
    assert (second["place"], second["id"], second["again"]) == (1, "req_2", True)
    assert (second["budget_id"], second["key_rate"]) == (None, [0, 0, 0])


def test_a_settlement_says_how_it_ended() -> None:
    """Bills of providers are those of charges; requests without an end are left out."""
    charged = settlement(5, provider_cost_nano=4, reported_cost_nano=3)
    voided = replace(charged, cost_nano=0, outcome="upstream_error")
    items = [replace(make_item(), settlement=one) for one in (charged, None, voided)]
    first, second = orjson.loads(write_settlements(items, NOW_MS))
    assert (first["place"], first["state"], first["cost_nano"]) == (0, "posted", 5)
    assert (first["provider_cost_nano"], first["reported_cost_nano"]) == (4, 3)
    assert (first["input_tokens"], first["estimated"]) == (TOKENS.input, 0)
    assert (second["place"], second["state"], second["account_id"]) == (2, "voided", 7)
    assert (second["provider_cost_nano"], second["reported_cost_nano"]) == (None, None)
    assert orjson.loads(write_settlements([replace(make_item(), settlement=void())], NOW_MS))


def test_an_answer_is_read() -> None:
    told = {
        "done": {
            "settled": ["r1"], "others": [["r2", "posted", 5]], "balances": [[7, -3]],
            "spent": [["key_1", 8]], "budgets": [[3, TODAY, 6]],
        },
        "admitted": {"admitted": ["r3"], "in_full": ["r3"], "declined": [["r4", ["cap"], 1, 2, [3, 4]]]},
    }  # fmt: skip
    answer = read_answer(orjson.dumps(told))
    assert (answer.settled, answer.admitted, answer.in_full) == ({"r1"}, {"r3"}, {"r3"})
    assert (answer.others["r2"].state, answer.others["r2"].cost_nano) == ("posted", 5)
    assert (answer.balances_nano, answer.spent_nano) == ({7: -3}, {"key_1": 8})
    declined = answer.declined["r4"]
    assert (declined.reason, declined.balance_nano, declined.spent_nano) == (["cap"], 1, 2)
    spendings = find_spendings(answer, [make_item(budget=make_budget()), make_item()])
    assert spendings == {3: Spending(find_span("day", NOW_MS), 6)}


@each_row("text", ['{"done": null, "admitted": null, "budgets": []}'])
def test_an_answer_may_say_nothing(text: str) -> None:
    answer = read_answer(text)
    assert not any((answer.settled, answer.others, answer.admitted, answer.declined))


@each_row(
    ("reason", "kind", "words"),
    [
        (["balance"], InsufficientBalance, "balance is used up"),
        (["cap"], InsufficientBalance, "spending cap is reached"),
        (["budget"], BudgetSpent, "team"),
        (["balance held"], BalanceHeld, "whole balance is held"),
        (["cap held"], BalanceHeld, "rest of this key's spending cap is held"),
        (["budget held"], BalanceHeld, "is held by requests in flight"),
        (["concurrency", "key", 4, 0], RateLimited, "This key has 4 requests in flight"),
        (["requests", "account", 3, 1_500_000], RateLimited, "account may make 3 .* in 1.5 s"),
        (["tokens", "key", 90, 2_000_000], RateLimited, "90 tokens .* about 60.* in 2.0 s"),
    ],
)
def test_each_reason_has_its_refusal(
    reason: list[object], kind: type[GatewayError], words: str
) -> None:
    item = make_item(budget=make_budget())
    with pytest.raises(kind, match=words):
        raise make_refusal(item, reason)


def test_an_unknown_reason_is_a_bug() -> None:
    with pytest.raises(ValueError, match="moon"):
        make_refusal(make_item(), ["moon", 1, 2, 3, 4])


def test_what_is_spent_is_reported() -> None:
    report = Report()
    note_spent(make_item(), Declined(["balance"], -1, 2, None), report)
    assert (report.balances_nano, report.spent_nano) == ({7: -1}, {"key_1": 2})
    assert report.spendings == {}
    note_spent(make_item(budget=make_budget()), Declined(["budget"], 0, 0, (TODAY, 9)), report)
    assert report.spendings == {3: Spending(find_span("day", NOW_MS), 9)}


def test_the_answer_of_a_round_account_by_account_is_one() -> None:
    part = {"done": {"settled": ["req_1"], "balances": [[1, 5]]}, "admitted": None}
    other = {"done": {"settled": ["req_2"]}, "admitted": {"admitted": ["req_3"], "declined": []}}
    answer = read_answer(orjson.dumps({"parts": [part, other], "locked": [7]}))
    assert (answer.settled, answer.admitted) == ({"req_1", "req_2"}, {"req_3"})
    assert (answer.balances_nano, answer.locked) == ({1: 5}, {7})
