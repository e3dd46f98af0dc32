"""SQL that sums usage or costs by columns such as day and model, from stored sums or from the requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from gateway.base.times import HOURS_PER_DAY
from gateway.extras.reports.records import ChartUnit, ProviderCosts, Usage
from gateway.ledger.sql.database import KEY_LIVES, sum_parts
from gateway.ledger.sql.rows import is_amount, name_parts, write_cost_sums, write_usage_sums

Table = Literal["hourly", "daily", "daily_totals", "requests"]

_TIMES: Final[Mapping[Table, str]] = {
    "hourly": "hour",
    "daily": "day",
    "daily_totals": "day",
    "requests": "ended_ms",
}
KEY_WORKS: Final = f"""
    {KEY_LIVES} AND (cap_nano IS NULL OR cap_nano > (
        SELECT origins.spent_nano FROM keys AS origins WHERE origins.id = keys.origin_id
    ))
"""  # noqa: S608 - built from constants
"""The condition under which `KeyView.status` is active."""
EVER: Final = 2**62
"""A day, or a time, later than all that can be stored."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Sums of one kind."""

    names: tuple[str, ...]
    """Columns of `daily`; amounts are summed in two parts."""
    are_any: str
    """The condition that a group of days or hours has any."""
    is_counted: str
    """The condition that a request counts."""
    of_requests: str
    """The sums over requests."""


USAGE: Final = Kind(
    Usage._fields,
    "sum(requests) > 0",  # days on which all requests failed are no group
    "state = 'posted'",
    ", ".join(write_usage_sums(sum_parts)),
)
USED: Final = Kind((), "sum(requests) > 0", "state = 'posted'", "")
"""Nothing but the places in which there was any usage."""
COSTS: Final = Kind(
    ProviderCosts._fields,
    "sum(known + reported) > 0",
    "state = 'posted' AND (provider_cost_nano IS NOT NULL OR reported_cost_nano IS NOT NULL)",
    ", ".join(write_cost_sums(sum_parts)),
)
ONE: Final = "account_id = :account AND (:key IS NULL OR key_id = :key)"
ALL: Final = "account_id IN (SELECT id FROM accounts) AND (:key IS NULL OR key_id = :key)"
"""All accounts, each by the table's key, so that other days are not read."""


@lru_cache(maxsize=128)
def write_sums(kind: Kind, table: Table, where: str, *places: str) -> str:
    """Write sums by places, as columns: first the places, in whose order rows come, then the sums.

    Days and hours come in the order of their table's key, so that nothing has to be sorted.
    """
    parts = [sum_parts(name) if is_amount(name) else f"sum({name})" for name in kind.names]
    counted, having = "", f"HAVING {kind.are_any}"
    if table == "requests":
        counted, having, parts = f"AND {kind.is_counted}", "", [kind.of_requests]
    elif table == "daily_totals":
        parts = [f"sum({part})" for name in kind.names for part in name_parts(name)]
    at, by = _TIMES[table], ", ".join(places)
    names = [f"c{n}" for n in range(len(places) + sum(1 + is_amount(one) for one in kind.names))]
    return f"""
        WITH sums ({", ".join(names)}) AS (
            SELECT {", ".join((*places, *parts))} FROM {table}
            WHERE {where} AND {at} >= :first AND {at} < :end
                AND (:model IS NULL OR model = :model) {counted}
            GROUP BY {by} {having} ORDER BY {by}
        )
        SELECT json_array({", ".join(f"json_group_array({name})" for name in names)}) FROM sums
    """  # noqa: S608 - of constants


CHARTS: Final[Mapping[ChartUnit, tuple[Table, int]]] = {
    "day": ("daily", 1),
    "hour": ("hourly", HOURS_PER_DAY),
}
"""The table of a chart, whose column of time is the unit; units of a day."""
