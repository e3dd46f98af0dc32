"""Views for operators: records as JSON and CSV."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from gateway.admin import fields, views
from gateway.ledger.budget_records import BudgetStanding
from gateway.ledger.key_records import KeyTerms, KeyView

# ---- records as JSON ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "told"), [(None, " a month"), ("team", " a month, team")])
def test_the_budget_of_a_key_is_shown_with_its_name(name: str | None, told: str) -> None:
    budget = BudgetStanding(1, name, "month", 10**9, 0, 7)
    key = KeyView("key_1", "alice", "sk-ru-…a1b2", KeyTerms(), 0, 0, None, None, None)
    assert views._describe_key_budget(key) == "-"
    assert views._describe_key_budget(replace(key, budget=budget)).endswith(told)


# ---- processes and their names ------------------------------------------------------------------


def test_a_process_is_named_by_its_number_and_host() -> None:
    assert fields.name_process(7) == f"process 7 on {socket.gethostname()}"
