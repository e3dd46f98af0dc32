"""Accounts in lists, each with what it spent and how long its balance lasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, cast

import orjson

from gateway.admin.fields import Fields
from gateway.admin.views import ACCOUNT, describe_account_state, describe_limits
from gateway.extension import find_added
from gateway.extras.reports.sums import KEY_WORKS
from gateway.ledger.call_records import Spent
from gateway.ledger.records import AccountView, NotFound
from gateway.ledger.sql.database import (
    ACCOUNT_COLUMNS,
    PART,
    AccountColumns,
    Database,
    Part,
    join_parts,
    view_account,
)

Describe = Callable[[Database, Sequence[int]], Mapping[int, Mapping[str, object]]]
"""Returns further members of accounts: by the account's id, then by the name in JSON. Other extras add some."""
_SPENT: Final = """
    coalesce((
        SELECT sum(cost_nano {part}) FROM daily
        WHERE daily.account_id = accounts.id AND day > :today - {days}
    ), 0)
"""
_SPENT_PARTS: Final = ", ".join(
    _SPENT.format(days=days, part=part)
    for days in (1, 7, 30)
    for part in (f"/ {PART}", f"% {PART}")
)
_STANDINGS: Final = f"""
    SELECT json_group_array(json_array(
        {ACCOUNT_COLUMNS},
        {_SPENT_PARTS},
        (
            SELECT count(*) FROM keys WHERE keys.account_id = accounts.id AND {KEY_WORKS}
        ),
        (SELECT max(last_used_ms) FROM keys WHERE keys.account_id = accounts.id)
    ))
    FROM accounts WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
"""  # noqa: S608 - built from constants


@dataclass(frozen=True, slots=True)
class StandingView:
    """An account as the operator sees it in a list."""

    account: AccountView
    spent: Spent
    keys: int
    """Keys that work at present."""
    last_used_ms: int | None
    more: Mapping[str, object] = field(default_factory=dict)
    """Members that extras add to it, by their names in JSON."""

    @property
    def days_left(self) -> int | None:
        account = self.account
        return count_days_left(account.balance_nano, account.available_nano, self.spent.week_nano)


def count_days_left(balance_nano: int, available_nano: int, spent_week_nano: int) -> int | None:
    """Return how many whole days the available balance lasts at the rate of the last week.

    0 if the balance is overdrawn, or if it is used up and that week had spending. None if it is not overdrawn
    and nothing was spent in that week.
    """
    if spent_week_nano <= 0:
        return 0 if balance_nano < 0 else None
    return max(available_nano, 0) * 7 // spent_week_nano


class StandingBook(Part):
    def read_standing(self, account_id: int, *, today: int) -> StandingView:
        """Return the account with what it spent; `today` is counted in UTC days from the epoch."""
        found = self.read_standings((account_id,), today=today)
        if not found:
            raise NotFound("there is no such account")
        return found[0]

    def read_standings(self, account_ids: Sequence[int], *, today: int) -> list[StandingView]:
        """Return the accounts of these ids in their order; unknown ids are left out."""
        # Only these are summed, so a page costs the same however many accounts exist.
        ids, now_ms = orjson.dumps(account_ids).decode(), self._database.clock()
        rows = self._database.read_rows(_STANDINGS, {"ids": ids, "today": today, "now": now_ms})
        more: defaultdict[int, dict[str, object]] = defaultdict(dict)
        for add in find_added("reports"):
            for id_, told in cast("Describe", add)(self._database, account_ids).items():
                more[id_] |= told
        found = {row[0]: _make_standing(row, more[row[0]]) for row in rows}
        return [found[account_id] for account_id in account_ids if account_id in found]


def _make_standing(
    row: tuple[*AccountColumns, int, int, int, int, int, int, int, int | None],
    more: Mapping[str, object],
) -> StandingView:
    spent = Spent(*map(join_parts, row[11:17:2], row[12:17:2]))
    return StandingView(view_account(row[:11]), spent, *row[17:], more)


MAX_TOLD_DAYS: Final = 999
"""Days, the longest time that is shown exactly: so far ahead an estimate says no more than that it is
long."""


def _describe_lasting(standing: StandingView) -> str:
    days = standing.days_left
    if days is None or days > MAX_TOLD_DAYS:
        return "-" if days is None else f"over {MAX_TOLD_DAYS} days"
    return "1 day" if days == 1 else f"{days} days"


STANDING: Final = Fields[StandingView](
    *ACCOUNT.under(attrgetter("account")).members,
    ("spent_today_nano", "spent.today_nano"),
    ("spent_7d_nano", "spent.week_nano"),
    ("spent_30d_nano", "spent.month_nano"),
    *("keys", "last_used_ms", "more", "days_left"),
    table=(
        *("account.name", "account.balance_nano", "account.held_nano"),
        (">7 DAYS {}", "spent_7d_nano"),
        ("LASTS", _describe_lasting),
        ("STATE", lambda one: describe_account_state(one.account)),
        ("LIMITS", lambda one: describe_limits(one.account.terms)),
        "account.created_ms",
    ),
)
"""An account in a list, with what it spent."""
