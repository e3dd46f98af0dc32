"""Sums of usage and costs, read from the sums by hour and day.

Requests are read only for the parts of days at the ends of a period. Rows come as one JSON array, and sums
that a chart is made of, which may be thousands, as its columns (see `database`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeVar

import orjson

from gateway.base.times import DAY_MS, format_day
from gateway.extras.observations.records import KeyLabel, label_key
from gateway.extras.reports.records import (
    ChartUnit,
    GatewayView,
    OverviewView,
    ProviderCosts,
    Usage,
    UsageFilter,
    UsageGroup,
    UsagePoint,
    UsageReport,
)
from gateway.extras.reports.sums import (
    ALL,
    CHARTS,
    COSTS,
    EVER,
    KEY_WORKS,
    ONE,
    USAGE,
    USED,
    Kind,
    Table,
    write_sums,
)
from gateway.ledger.records import Refused
from gateway.ledger.sql.database import Columns, Part, Value, join_parts, read_script
from gateway.ledger.sql.rows import is_amount

Row = TypeVar("Row", Usage, UsagePoint)

_GROUPS: Final[Mapping[UsageGroup, str]] = {
    "day": "day",
    "model": "model",
    "key": "key_id",
    "account": "account_id",
    "provider": "provider",
}
"""Columns of what usage is grouped by; days are UTC and numbered, see `_name`."""
UNKNOWN: Final = "unknown"
"""The provider of requests that were dropped before sums had one."""
_SQL: Final = read_script(__file__)
_STANDING: Final = f"""
    SELECT
        (
            SELECT count(*) FROM keys WHERE account_id = :account AND {KEY_WORKS}
        ),
        EXISTS (SELECT 1 FROM keys WHERE account_id = :account),
        EXISTS (SELECT 1 FROM daily WHERE account_id = :account AND requests > 0)
"""  # noqa: S608 - built from constants


class UsageBook(Part):
    def sum_by(
        self,
        by: UsageGroup,
        *,
        account: str | None,
        since_ms: int | None,
        until_ms: int | None,
        key_id: str | None = None,
        model: str | None = None,
    ) -> list[tuple[str, Usage]]:
        """Sum the posted requests that ended in [since, until).

        Accounts and providers come by cost, others by group.
        """
        chosen = {"account": account, "key": key_id, "model": model}
        rows = self._sum(USAGE, by, since_ms, until_ms, chosen)
        found = [(group, _make_usage(sums)) for group, sums in rows]
        return sorted(found, key=_by_spent) if by in {"account", "provider"} else found

    def sum_costs(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> dict[str, ProviderCosts]:
        """Sum what providers bill for these requests, in groups of which anything is known."""
        chosen = {"account": account, "key": None, "model": None}
        rows = self._sum(COSTS, by, since_ms, until_ms, chosen)
        return {group: _read_costs(sums) for group, sums in rows}

    def sum_with_costs(
        self,
        by: UsageGroup,
        *,
        account: str | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
    ) -> list[tuple[str, Usage, ProviderCosts]]:
        """Return both of these sums for each group; what providers bill is for operators only."""
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise Refused("the period ends before it begins; change its start or its end")
        with self._database.snapshot():  # so that both sums are of the same requests
            rows = self.sum_by(by, account=account, since_ms=since_ms, until_ms=until_ms)
            costs = self.sum_costs(by, account=account, since_ms=since_ms, until_ms=until_ms)
        return [(group, sums, costs.get(group, ProviderCosts())) for group, sums in rows]

    def _sum(
        self,
        kind: Kind,
        by: UsageGroup,
        since_ms: int | None,
        until_ms: int | None,
        chosen: Mapping[str, str | None],
    ) -> list[tuple[str, tuple[int, ...]]]:
        """Return the sums of each group, in the groups' order."""
        account, found = chosen["account"], dict[int | str, tuple[int, ...]]()
        values: dict[str, Value] = {**chosen}
        with self._database.snapshot():
            if account is not None:
                values["account"] = self._database.read_account(account).id
            for table, first, end in _split(since_ms, until_ms):
                is_day = table == "requests" and by == "day"
                place = f"ended_ms / {DAY_MS}" if is_day else _GROUPS[by]
                span = {**values, "first": first, "end": end}
                groups, *columns = self._read(kind, table, (place,), span)
                for group, *sums in zip(groups, *columns, strict=True):
                    others = found.get(group) or (0,) * len(sums)
                    found[group] = tuple(map(sum, zip(sums, others, strict=True)))
            names = self._read_names([*found]) if by == "account" else {}
        return [(names.get(group) or _name(by, group), found[group]) for group in sorted(found)]

    def report(self, chosen: UsageFilter, unit: ChartUnit, *, by_key: bool = False) -> UsageReport:
        """Sum the chosen requests by day or hour and, if asked for, by key."""
        values, (table, width) = _select(chosen), CHARTS[unit]
        spans = {"first": chosen.first_day * width, "end": (chosen.last_day + 1) * width}
        with self._database.snapshot():
            ats, used, *columns = self._read(USAGE, table, (unit, "model"), {**values, **spans})
            keys = self._read_keys(values) if by_key else []
            models = set(used)
            if chosen.model is not None:
                (found,) = self._read(USED, "daily", ("model",), {**values, "model": None})
                models = set(found)
        return UsageReport(
            tuple(sorted(_make(UsagePoint, ats, used, _make_usages(columns)))),
            tuple(sorted(keys, key=_by_cost)),
            tuple(sorted(models)),
        )

    def read_gateway(self, first_day: int) -> GatewayView:
        """Return the failures and credits since a day, and the balances."""
        with self._database.snapshot():
            failed = self._database.read_rows(_SQL["failed"], (first_day,))
            moved = self._database.fetch(_SQL["moved"], (first_day * DAY_MS,))
            owed, owed_rest, over, over_rest = self._database.read_one(_SQL["balances"])
        return GatewayView(
            dict(failed),
            {day: join_parts(*parts) for day, _, _, *parts in moved},
            {day: join_parts(*parts) for day, *parts, _, _ in moved},
            join_parts(owed, owed_rest),
            join_parts(over, over_rest),
        )

    def read_overview(self, account_id: int, *, first_day: int, soon_ms: int) -> OverviewView:
        """Return the days since `first_day`, and the keys that expire within `soon_ms`."""
        now_ms = self._database.clock()
        values = {"account": account_id, "now": now_ms, "soon": now_ms + soon_ms}
        with self._database.snapshot():
            chosen = UsageFilter(account_id, first_day, now_ms // DAY_MS)
            days, *columns = self._read(USAGE, "daily", ("day",), _select(chosen))
            active_keys, has_key, has_call = self._database.read_one(_STANDING, values)
            expiring = self._database.fetch(_SQL["expiring"], values)
        return OverviewView(
            dict(zip(days, _make_usages(columns), strict=True)),
            active_keys,
            bool(has_key),
            bool(has_call),
            tuple((label_key(*label), expires_ms) for *label, expires_ms in expiring),
        )

    def sum_by_key(self, account_id: int, first_day: int, last_day: int) -> dict[str, int]:
        """Return what each key was charged in nano-units; both days are inclusive."""
        values = _select(UsageFilter(account_id, first_day, last_day))
        found, *columns = self._read(USAGE, "daily", ("key_id",), values)
        return {id_: one.cost_nano for id_, one in zip(found, _make_usages(columns), strict=True)}

    def _read(
        self, kind: Kind, table: Table, places: Sequence[str], values: Mapping[str, Value]
    ) -> Columns:
        """Read sums of one account or of all; instead of sums by day the totals of days, if they suffice."""
        where = ALL if values["account"] is None else ONE
        is_wide = values["account"] is values["key"] is None
        if table == "daily" and is_wide and not {"account_id", "key_id"} & {*places}:
            table, where = "daily_totals", "TRUE"
        return self._database.read_columns(write_sums(kind, table, where, *places), values)

    def _read_keys(self, values: Mapping[str, Value]) -> list[tuple[KeyLabel, Usage]]:
        found, *columns = self._read(USAGE, "daily", ("key_id",), values)
        usages = dict(zip(found, _make_usages(columns), strict=True))
        wanted = {"ids": orjson.dumps(found).decode()}
        labels = self._database.read_rows(_SQL["labels"], wanted)
        return [(label_key(*row), usages[row[0]]) for row in labels]

    def _read_names(self, account_ids: list[int | str]) -> dict[int | str, str]:
        wanted = {"ids": orjson.dumps(account_ids).decode()}
        return dict(self._database.read_rows(_SQL["names"], wanted))


def _split(since_ms: int | None, until_ms: int | None) -> list[tuple[Table, int, int]]:
    """Split a time into whole days, whose sums stay when their requests are dropped, and the rest."""
    since_ms = 0 if since_ms is None else since_ms
    until_ms = EVER * DAY_MS if until_ms is None else until_ms
    first, end = -(-since_ms // DAY_MS), until_ms // DAY_MS
    if first > end:  # they are parts of one day
        return [("requests", since_ms, until_ms)]
    parts: list[tuple[Table, int, int]] = [
        ("requests", since_ms, first * DAY_MS),
        ("daily", first, end),
        ("requests", end * DAY_MS, until_ms),
    ]
    return [part for part in parts if part[1] < part[2]]


def _make(kind: type[Row], *columns: Iterable[object]) -> Iterator[Row]:
    """Build named tuples in bulk: `NamedTuple(*row)` would cost one Python call per row."""
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=True))


def _read_costs(sums: Sequence[int]) -> ProviderCosts:
    """Make the record from its sums, of which each amount is in two parts."""
    left = iter(sums)
    counts = (
        join_parts(next(left), next(left)) if is_amount(name) else next(left)
        for name in ProviderCosts._fields
    )
    return ProviderCosts(*counts)


def _make_usage(sums: Sequence[int]) -> Usage:
    *counts, wholes, rests = sums
    return Usage._make((*counts, join_parts(wholes, rests)))


def _make_usages(columns: Sequence[Sequence[int]]) -> Iterator[Usage]:
    *counts, wholes, rests = columns
    return _make(Usage, *counts, map(join_parts, wholes, rests))


def _by_spent(row: tuple[str, Usage]) -> tuple[int, str]:
    name, usage = row
    return -usage.cost_nano, name


def _name(by: UsageGroup, group: str | int) -> str:
    return format_day(int(group)) if by == "day" else str(group) or UNKNOWN


def _select(chosen: UsageFilter) -> dict[str, Value]:
    return {
        "account": chosen.account_id,
        "first": chosen.first_day,
        "end": chosen.last_day + 1,
        "key": chosen.key_id,
        "model": chosen.model,
    }


def _by_cost(row: tuple[KeyLabel, Usage]) -> tuple[int, str]:
    return -row[1].cost_nano, row[0].id
