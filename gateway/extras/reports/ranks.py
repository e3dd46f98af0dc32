"""All accounts together: in which order they come, by what they have or spent, and the sum of their balances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from gateway.extras.reports.standings import count_days_left
from gateway.ledger.sql.database import Part, join_parts, read_script, sum_parts

AccountOrder = Literal[
    "name", "balance", "held", "spent_today", "spent_7d", "spent_30d", "least", "lasts"
]
"""The order of a list of accounts: by name; largest first; least balance first; or by the days that the
balance lasts, fewest first."""

_SQL: Final = read_script(__file__)
_RANKED: Final = "SELECT json_group_array(json_array(id, 0, {amount})) FROM accounts"
RANKS: Final[Mapping[str, str]] = {
    "name": _RANKED.format(amount="0"),
    "balance": _RANKED.format(amount="balance_nano"),
    "held": _SQL["rank by held"],
    "spent_today": _SQL["rank by spent"].format(days=1),
    "spent_7d": _SQL["rank by spent"].format(days=7),
    "spent_30d": _SQL["rank by spent"].format(days=30),
}
"""SQL of the amount by which accounts are ranked."""
_ALL_BALANCES: Final = f"SELECT {sum_parts('balance_nano')} FROM accounts"  # noqa: S608
_OVERDRAWN: Final = "SELECT name FROM accounts WHERE balance_nano < 0 ORDER BY balance_nano, name"
MAX_DAYS: Final = 1_000_000
"""The rank of a balance that nothing is spent from, after all others: they are ranked by days, at most as
many."""


class RankBook(Part):
    def find_top(self, first_day: int, count: int) -> list[str]:
        """Return the names of the accounts with calls since a day that spent most."""
        return [name for (name,) in self._database.fetch(_SQL["top"], (first_day, count))]

    def find_overdrawn(self) -> list[str]:
        """Return the names of the accounts with a balance below zero, the lowest first."""
        return [name for (name,) in self._database.fetch(_OVERDRAWN)]

    def rank(self, by: AccountOrder, *, today: int) -> dict[int, int]:
        """Return the number by which each account ranks, the largest first, by its id. By name all are 0."""
        if by == "least":
            return {id_: -nano for id_, nano in self.rank("balance", today=today).items()}
        if by == "lasts":
            return self._rank_by_days(today)
        with self._database.snapshot():  # in PostgreSQL with the settings for large sums
            rows = self._database.read_rows(RANKS[by], {"today": today})
        return {account_id: join_parts(*parts) for account_id, *parts in rows}

    def _rank_by_days(self, today: int) -> dict[int, int]:
        with self._database.snapshot():
            balances, held = self.rank("balance", today=today), self.rank("held", today=today)
            spent = self.rank("spent_7d", today=today)
        ranks: dict[int, int] = {}
        for id_, nano in balances.items():
            days = count_days_left(nano, nano - held[id_], spent[id_])
            ranks[id_] = -MAX_DAYS if days is None else -min(days, MAX_DAYS - 1)
        return ranks

    def sum_balances(self) -> int:
        """Return the sum of all balances."""
        return join_parts(*self._database.read_one(_ALL_BALANCES, ()))
