"""Sums of usage and costs, read from the sums by hour and day.

Requests are read only for periods that are not whole days. Rows come as one JSON array, and sums
that a chart is made of, which may be thousands, as its columns (see `connection`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Final, TypeVar

import orjson

from gateway import ids
from gateway.ledger.call_records import (
    ChartUnit,
    GatewayView,
    KeyLabel,
    OverviewView,
    ProviderCosts,
    Usage,
    UsageFilter,
    UsageGroup,
    UsagePoint,
    UsageReport,
)
from gateway.ledger.records import Refused
from gateway.ledger.sql.connection import (
    PART,
    Connection,
    Value,
    join_parts,
    read_columns,
    read_rows,
    sum_parts,
)
from gateway.ledger.sql.database import KEY_WORKS, Part, read_account
from gateway.ledger.sql.rows import (
    COSTS_OF_DAYS,
    COSTS_OF_REQUESTS,
    DAY_SUMS,
    HAS_COST,
    is_amount,
    name_parts,
    read_costs,
)
from gateway.times import DAY_MS, HOURS_PER_DAY, format_day

Row = TypeVar("Row", Usage, UsagePoint)

_SUMS: Final = """
    SELECT json_array(
        {lists}, json_group_array(requests), json_group_array(input_tokens),
        json_group_array(cached_input_tokens), json_group_array(cache_write_tokens),
        json_group_array(output_tokens), json_group_array(cost_wholes),
        json_group_array(cost_rests)
    )
    FROM (
        SELECT {places}, sum(requests) AS requests, sum(input_tokens) AS input_tokens,
            sum(cached_input_tokens) AS cached_input_tokens,
            sum(cache_write_tokens) AS cache_write_tokens, sum(output_tokens) AS output_tokens,
            sum((cost_nano) / {part}) AS cost_wholes,
            sum((cost_nano) % {part}) AS cost_rests
        FROM {table}
        WHERE account_id = :account AND (:key IS NULL OR key_id = :key)
            AND {unit} >= :first AND {unit} <= :last AND (:model IS NULL OR model = :model)
        GROUP BY {places} HAVING sum(requests) > 0
        ORDER BY {places}
    ) AS sums
"""
"""Days and hours come in the order of their table's key, so that nothing has to be sorted."""
_ONE: Final = "account_id = :account"
_ALL: Final = "account_id IN (SELECT id FROM accounts)"
"""All accounts, each by the table's key, so that other days are not read."""
_ONE_OR_KEY: Final = f"{_ONE} AND (:key IS NULL OR key_id = :key)"


def _sum_up(table: str, unit: str, *places: str) -> str:
    lists = ", ".join(f"json_group_array({place})" for place in places)
    return _SUMS.format(lists=lists, places=", ".join(places), table=table, unit=unit, part=PART)


POINTS: Final[Mapping[ChartUnit, str]] = {
    "day": _sum_up("daily", "day", "day", "model"),
    "hour": _sum_up("hourly", "hour", "hour", "model"),
}
_DAYS: Final = _sum_up("daily", "day", "day")
_KEYS: Final = _sum_up("daily", "day", "key_id")
_ACCOUNTS: Final = _sum_up("daily", "day", "account_id")
_NAMES: Final = """
    SELECT json_group_array(json_array(id, name)) FROM accounts
    WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))
"""
_LABELS: Final = (
    "SELECT json_group_array(json_array(id, name, last4)) FROM keys"
    " WHERE id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids))"
)
_MODELS: Final = """
    SELECT json_group_array(model) FROM (
        SELECT DISTINCT model FROM daily
        WHERE account_id = :account AND (:key IS NULL OR key_id = :key)
            AND day >= :first AND day <= :last AND requests > 0
    ) AS used
"""
_STANDING: Final = f"""
    SELECT
        (
            SELECT count(*) FROM keys WHERE account_id = :account AND {KEY_WORKS}
        ),
        EXISTS (SELECT 1 FROM keys WHERE account_id = :account),
        EXISTS (SELECT 1 FROM daily WHERE account_id = :account AND requests > 0)
"""  # noqa: S608 - built from constants
_EXPIRING: Final = """
    SELECT id, name, last4, expires_ms FROM keys
    WHERE account_id = :account AND revoked_ms IS NULL AND replaced_by IS NULL
        AND expires_ms > :now AND expires_ms <= :soon
    ORDER BY expires_ms, id
"""
_FAILED: Final = """
    SELECT json_group_array(json_array(day, failed)) FROM (
        SELECT day, sum(failed) AS failed FROM daily_totals WHERE day >= ? GROUP BY day
    ) AS sums
"""
_CREDITED: Final = f"""
    SELECT created_ms / {DAY_MS}, {sum_parts("amount_nano")} FROM entries
    WHERE kind <> 'charge' AND kind IN ('credit', 'code', 'card') AND created_ms >= ?
    GROUP BY 1
"""  # noqa: S608 - of constants
_BALANCES: Final = f"""
    SELECT {sum_parts("CASE WHEN balance_nano > 0 THEN balance_nano ELSE 0 END")},
        {sum_parts("CASE WHEN balance_nano < 0 THEN -balance_nano ELSE 0 END")}
    FROM accounts
"""  # noqa: S608 - of constants
_SPENT_BY_KEY: Final = """
    SELECT json_group_array(json_array(key_id, cost_nano)) FROM (
        SELECT key_id, sum(cost_nano) AS cost_nano FROM daily
        WHERE account_id = ? AND day >= ? AND day <= ? GROUP BY key_id
    ) AS sums
"""


_OWN: Final = (
    "accounts.name = coalesce(:account, accounts.name) AND (:key IS NULL OR key_id = :key)"
)
_SOURCES: Final = {
    "requests": ("ended_ms", 1, "requests CROSS JOIN accounts ON accounts.id = account_id", _OWN),
    "daily": ("day", DAY_MS, "accounts CROSS JOIN daily ON account_id = accounts.id", _OWN),
    "daily_totals": ("day", DAY_MS, "daily_totals", "TRUE"),
}
"""Where sums are read, by table: the column of time and its unit, the tables, and the condition."""


def _sum_chosen(table: str, condition: str, sums: str) -> str:
    """Write sums over days or over requests that ended in a time; their group is to be put in."""
    at, unit_ms, source, own = _SOURCES[table]
    return f"""
        SELECT {{}}, {sums}
        FROM {source}
        WHERE {own} AND {condition} AND (:model IS NULL OR model = :model)
            AND (:since IS NULL OR {at} >= :since / {unit_ms})
            AND (:until IS NULL OR {at} < :until / {unit_ms})
        GROUP BY 1 ORDER BY 1
    """  # noqa: S608 - of constants


def _write_sums(used: str, of_days: str, posted: str, of_requests: str) -> dict[str, str]:
    """Write the statements by table, of a condition and sums over days, and of those over requests."""
    return {
        "requests": _sum_chosen("requests", posted, of_requests),
        "daily": _sum_chosen("daily", used, of_days),
        "daily_totals": _name_totals(_sum_chosen("daily_totals", used, of_days)),
    }


def _name_totals(sql: str) -> str:
    """Replace the parts of amounts by the columns that have them in `daily_totals`."""
    for name in filter(is_amount, DAY_SUMS):
        wholes, rests = name_parts(name)
        sql = sql.replace(f"({name}) / {PART}", wholes).replace(f"({name}) % {PART}", rests)
    return sql


_TOKENS: Final = "sum(input_tokens), sum(cached_input_tokens)"
_COST: Final = f"sum(output_tokens), {sum_parts('cost_nano')}"
_USAGE: Final = _write_sums(
    "requests > 0",  # days on which all requests failed are no group
    f"sum(requests), {_TOKENS}, sum(cache_write_tokens), {_COST}",
    "state = 'posted'",
    f"count(*), {_TOKENS}, sum(cache_write_tokens + cache_write_1h_tokens), {_COST}",
)
_COSTS: Final = _write_sums("known + reported > 0", COSTS_OF_DAYS, HAS_COST, COSTS_OF_REQUESTS)
UNKNOWN: Final = "unknown"
"""The provider of requests that were dropped before sums had one."""
_GROUPS: Final[Mapping[UsageGroup, str]] = {
    "day": "{}",
    "model": "model",
    "key": "key_id",
    "account": "accounts.name",
    "provider": "provider",
}
"""SQL of what usage is grouped by; days are UTC and numbered, see `_name`."""


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
        # Whole days are read from their sums, which is quick, others from the requests.
        chosen = {"account": account, "key": key_id, "model": model}
        rows = self._sum(by, _USAGE, chosen, since_ms, until_ms)
        found = [(_name(by, group), _make_usage(sums)) for group, *sums in rows]
        return sorted(found, key=_by_spent) if by in {"account", "provider"} else found

    def sum_costs(
        self, by: UsageGroup, *, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> dict[str, ProviderCosts]:
        """Sum what providers bill for these requests, in groups of which anything is known."""
        chosen = {"account": account, "key": None, "model": None}
        rows = self._sum(by, _COSTS, chosen, since_ms, until_ms)
        return {_name(by, group): read_costs(sums) for group, *sums in rows}

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
        by: UsageGroup,
        statements: Mapping[str, str],
        chosen: Mapping[str, str | None],
        since_ms: int | None,
        until_ms: int | None,
    ) -> list[tuple[str | int, *tuple[int, ...]]]:
        values = {**chosen, "since": since_ms, "until": until_ms}
        table, day = "daily", "day"
        if any(ms is not None and ms % DAY_MS for ms in (since_ms, until_ms)):
            table, day = "requests", f"ended_ms / {DAY_MS}"
        elif by not in {"account", "key"} and chosen["account"] is chosen["key"] is None:
            table = "daily_totals"
        sql = statements[table].format(_GROUPS[by].format(day))
        with self._database.snapshot() as connection:
            if chosen["account"] is not None:
                read_account(connection, chosen["account"])
            return connection.execute(sql, values).fetchall()

    def report(
        self,
        chosen: UsageFilter,
        unit: ChartUnit,
        *,
        by_key: bool = False,
        by_account: bool = False,
    ) -> UsageReport:
        """Sum the chosen requests by day or hour and, if asked for, by key or account."""
        values, scope = _select(chosen), _ONE if chosen.account_id is not None else _ALL
        width = HOURS_PER_DAY if unit == "hour" else 1
        spans = {"first": chosen.first_day * width, "last": (chosen.last_day + 1) * width - 1}
        with self._database.snapshot() as connection:
            points, models_of = (_choose(sql, chosen) for sql in (POINTS[unit], _MODELS))
            ats, used, *columns = read_columns(connection, points, {**values, **spans})
            keys = _read_keys(connection, scope, values) if by_key else []
            accounts = _read_accounts(connection, scope, values) if by_account else []
            models = set(used)
            if chosen.model is not None:
                models = set(read_rows(connection, models_of, values))
        return UsageReport(
            tuple(sorted(_make(UsagePoint, ats, used, _make_usages(columns)))),
            tuple(sorted(keys, key=_by_cost)),
            tuple(sorted(models)),
            tuple(sorted(accounts, key=_by_spent)),
        )

    def read_gateway(self, first_day: int) -> GatewayView:
        """Return the failures and credits since a day, and the balances."""
        with self._database.snapshot() as connection:
            failed = read_rows(connection, _FAILED, (first_day,))
            credited = connection.execute(_CREDITED, (first_day * DAY_MS,)).fetchall()
            owed, owed_rest, over, over_rest = connection.execute(_BALANCES).fetchone()
        return GatewayView(
            dict(failed),
            {day: join_parts(*parts) for day, *parts in credited},
            join_parts(owed, owed_rest),
            join_parts(over, over_rest),
        )

    def read_overview(self, account_id: int, *, first_day: int, soon_ms: int) -> OverviewView:
        """Return the days since `first_day`, and the keys that expire within `soon_ms`."""
        now_ms = self._database.clock()
        values = {"account": account_id, "now": now_ms, "soon": now_ms + soon_ms}
        with self._database.snapshot() as connection:
            chosen = UsageFilter(account_id, first_day, now_ms // DAY_MS)
            days, *columns = read_columns(connection, _DAYS, _select(chosen))
            active_keys, has_key, has_call = connection.execute(_STANDING, values).fetchone()
            expiring = connection.execute(_EXPIRING, values).fetchall()
        return OverviewView(
            dict(zip(days, _make_usages(columns), strict=True)),
            active_keys,
            bool(has_key),
            bool(has_call),
            tuple((_label(*label), expires_ms) for *label, expires_ms in expiring),
        )

    def sum_by_key(self, account_id: int, first_day: int, last_day: int) -> dict[str, int]:
        """Return what each key was charged in nano-units; both days are inclusive."""
        return dict(self._database.read_rows(_SPENT_BY_KEY, (account_id, first_day, last_day)))


def _make(kind: type[Row], *columns: Iterable[object]) -> Iterator[Row]:
    """Make named tuples of columns; their own way of it is a call of Python for each, and slow."""
    return map(tuple.__new__, repeat(kind), zip(*columns, strict=True))


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


def _choose(sql: str, chosen: UsageFilter) -> str:
    """Write sums of one account, or of all: of those by day the totals, unless a key is chosen."""
    if chosen.account_id is not None:
        return sql
    if chosen.key_id is None and "FROM daily\n" in sql:
        return _name_totals(
            sql.replace("FROM daily\n", "FROM daily_totals\n").replace(_ONE_OR_KEY, "TRUE")
        )
    return sql.replace(_ONE, _ALL)


def _select(chosen: UsageFilter) -> dict[str, Value]:
    return {
        "account": chosen.account_id,
        "first": chosen.first_day,
        "last": chosen.last_day,
        "key": chosen.key_id,
        "model": chosen.model,
    }


def _read_accounts(
    connection: Connection, scope: str, values: Mapping[str, Value]
) -> list[tuple[str, Usage]]:
    ids, *columns = read_columns(connection, _ACCOUNTS.replace(_ONE, scope), values)
    names = dict(read_rows(connection, _NAMES, {"ids": orjson.dumps(ids).decode()}))
    return [(names[one], usage) for one, usage in zip(ids, _make_usages(columns), strict=True)]


def _read_keys(
    connection: Connection, scope: str, values: Mapping[str, Value]
) -> list[tuple[KeyLabel, Usage]]:
    ids, *columns = read_columns(connection, _KEYS.replace(_ONE, scope), values)
    usages = dict(zip(ids, _make_usages(columns), strict=True))
    labels = read_rows(connection, _LABELS, {"ids": orjson.dumps(ids).decode()})
    return [(_label(*row), usages[row[0]]) for row in labels]


def _label(key_id: str, name: str, last4: str) -> KeyLabel:
    return KeyLabel(key_id, name, ids.display(last4))


def _by_cost(row: tuple[KeyLabel, Usage]) -> tuple[int, str]:
    return -row[1].cost_nano, row[0].id
