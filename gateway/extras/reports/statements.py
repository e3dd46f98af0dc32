"""The statement of a period: opening balances, movements, closing balances.

Charges are read from the sums by day, so they belong to the day on which their request ended, and a
period consists of whole days. All other entries are few, and are summed one by one.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections import defaultdict
from datetime import date
from typing import Final

from gateway.base.times import DAY_MS
from gateway.extras.reports.records import StatementLine
from gateway.ledger.sql.database import Part, join_parts, read_script

_SQL: Final = read_script(__file__)
_KINDS: Final = ("before", "credit", "code", "card", "charge", "correction")
"""The amounts of a `StatementLine`, in its order: what was before a time, and the kinds of entries."""


class StatementBook(Part):
    def read(self, first_day: int, end_day: int, account: str | None = None) -> list[StatementLine]:
        """Return a line for each account that was there, by name; `end_day` is exclusive."""
        account = account and self._database.name_account(account)
        since_ms, until_ms = first_day * DAY_MS, end_day * DAY_MS
        wanted = {"account": account, "since": since_ms, "until": until_ms}
        sums: defaultdict[tuple[int, str], int] = defaultdict(int)
        of_days = {"account": account, "first": first_day, "end": end_day}
        with self._database.snapshot():
            if account is not None:
                self._database.read_account(account)
            accounts = self._database.fetch(_SQL["accounts"], {"account": account})
            moved = self._database.fetch(_SQL["moved"], wanted)
            charges = self._database.fetch(_SQL["charges"], of_days)
        for account_id, kind, *parts in (*moved, *charges):
            sums[account_id, kind] += join_parts(*parts)
        lines = [
            (StatementLine(name, *(sums[id_, kind] for kind in _KINDS)), created_ms)
            for id_, name, created_ms in accounts
        ]
        # An account made later may have charges: the day on which a request ended counts.
        return [line for line, made_ms in lines if made_ms < until_ms or any(line.amounts_nano)]


def read_month(text: str) -> tuple[int, int]:
    """Parse a calendar month as days since the epoch: its first, and the first of the next month."""
    try:
        first = date.fromisoformat(f"{text}-01")
        # Here, too: of the last month of all dates there is no next one.
        after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    except ValueError as error:
        raise ArgumentTypeError(f"'{text}' is no month; write 2026-10") from error
    epoch = date(1970, 1, 1)
    return (first - epoch).days, (after - epoch).days
