"""The statement of a time: opening balances, what moved them, closing balances.

Charges are read from the sums by day, so they belong to the day on which their request ended, and a
time is of whole days. All other entries are few, and are summed one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

from gateway.ledger.call_records import StatementLine
from gateway.ledger.records import EntryKind
from gateway.ledger.sql.books.database import Part, read_account
from gateway.ledger.sql.connection import join_parts, sum_parts
from gateway.times import DAY_MS

_ACCOUNTS: Final = """
    SELECT id, name, created_ms FROM accounts WHERE name = coalesce(:account, name) ORDER BY name
"""
_MOVES: Final = f"""
    SELECT account_id, CASE WHEN entries.created_ms < :since THEN 'before' ELSE kind END,
        {sum_parts("amount_nano")}
    FROM accounts CROSS JOIN entries ON account_id = accounts.id
    WHERE kind <> 'charge' AND entries.created_ms < :until
        AND name = coalesce(:account, name)
    GROUP BY 1, 2
"""  # noqa: S608 - built from constants
_CHARGES: Final = " UNION ALL ".join(
    f"""
    SELECT accounts.id, '{kind}', {sum_parts("-cost_nano")}
    FROM accounts CROSS JOIN daily ON account_id = accounts.id
    WHERE {days} AND name = coalesce(:account, name)
    GROUP BY accounts.id
    """  # noqa: S608 - built from constants
    for kind, days in (("before", "day < :first"), ("charge", "day >= :first AND day < :end"))
)
"""Two sums, as each is read in the order of its table's key: to group by account and kind takes twice as long."""
_KINDS: Final[Sequence[EntryKind]] = ("credit", "code", "card", "charge", "correction")


class StatementBook(Part):
    def read(self, first_day: int, end_day: int, account: str | None = None) -> list[StatementLine]:
        """Return a line for each account that was there, by name; `end_day` is exclusive."""
        since_ms, until_ms = first_day * DAY_MS, end_day * DAY_MS
        wanted = {"account": account, "since": since_ms, "until": until_ms}
        sums: defaultdict[tuple[int, str], int] = defaultdict(int)
        with self._database.snapshot() as connection:
            if account is not None:
                read_account(connection, account)
            accounts = connection.execute(_ACCOUNTS, {"account": account}).fetchall()
            of_days = {"account": account, "first": first_day, "end": end_day}
            for rows in (
                connection.execute(_MOVES, wanted).fetchall(),
                connection.execute(_CHARGES, of_days).fetchall(),
            ):
                for account_id, kind, *parts in rows:
                    sums[account_id, kind] += join_parts(*parts)
        lines = [
            (_make_line(name, sums[id_, "before"], *(sums[id_, kind] for kind in _KINDS)), created)
            for id_, name, created in accounts
        ]
        # One made later may have charges: it is the day on which a request ended that counts.
        return [line for line, created_ms in lines if created_ms < until_ms or _has_moved(line)]


def _make_line(account: str, opening_nano: int, *moves_nano: int) -> StatementLine:
    credit, codes, cards, charges, corrections = moves_nano
    closing_nano = opening_nano + sum(moves_nano)
    return StatementLine(
        account, opening_nano, credit, codes, cards, charges, corrections, closing_nano
    )


def _has_moved(line: StatementLine) -> bool:
    _, *amounts_nano = astuple(line)
    return any(amounts_nano)
