"""The order of accounts in lists."""

from __future__ import annotations

from gateway.extras.reports.standings import STANDING, StandingView
from gateway.extras.reports.verbs import _ORDERS
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import Terms
from gateway.ledger.records import AccountView


def test_the_balance_that_ends_first_is_first() -> None:
    def stand(name: str, balance: int, spent_week: int) -> StandingView:
        account = AccountView(1, name, False, False, balance, 0, 0, Terms())
        return StandingView(account, Spent(0, spent_week, 0), 0, None)

    accounts = [stand("unused", 1, 0), stand("long", 10**6, 7), stand("b", 3, 7), stand("a", 1, 7)]
    found = sorted(accounts, key=_ORDERS["lasts"])
    write = dict(STANDING.columns)["LASTS"]
    assert [(one.account.name, write(one)) for one in found] == [
        ("a", "1 day"),
        ("b", "3 days"),
        ("long", "over 999 days"),
        ("unused", "-"),
    ]
