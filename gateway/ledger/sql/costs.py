"""The SQL of what providers bill: sums over requests and over days, and where they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.sql.connection import join_parts, sum_parts
from gateway.times import DAY_MS

_IS_KNOWN: Final = "provider_cost_nano IS NOT NULL"
_IS_REPORTED: Final = "reported_cost_nano IS NOT NULL"


def _sum_requests(add_up: Callable[[str], str]) -> str:
    """Write the sums of `ProviderCosts` over requests; `add_up` writes that of an amount."""
    difference = "reported_cost_nano - provider_cost_nano"
    sums = (
        "count(provider_cost_nano)",
        add_up(f"CASE WHEN {_IS_KNOWN} THEN cost_nano END"),
        add_up("provider_cost_nano"),
        "count(reported_cost_nano)",
        add_up("reported_cost_nano"),
        f"count({difference})",
        add_up(difference),
    )
    return ", ".join(sums)


def _sum_days(add_up: Callable[[str], str]) -> str:
    """Write the same over days."""
    names = ProviderCosts._fields
    return ", ".join(add_up(name) if _is_amount(name) else f"sum({name})" for name in names)


def _add_up(column: str) -> str:
    return f"coalesce(sum({column}), 0)"


def _is_amount(name: str) -> bool:
    return name.endswith("_nano")


OF_REQUESTS: Final = _sum_requests(sum_parts)
OF_DAYS: Final = _sum_days(sum_parts)


def read_costs(sums: Sequence[int]) -> ProviderCosts:
    """Make the record of what `OF_REQUESTS` or `OF_DAYS` gives."""
    left = iter(sums)
    counts = (
        join_parts(next(left), next(left)) if _is_amount(name) else next(left)
        for name in ProviderCosts._fields
    )
    return ProviderCosts(*counts)


HAS_COST: Final = f"state = 'posted' AND ({_IS_KNOWN} OR {_IS_REPORTED})"

_OF_DAYS: Final = f"""
    SELECT account_id, day, model, key_id, {_sum_days(_add_up)} FROM daily_costs
    WHERE day * {DAY_MS} >= :kept_from GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
_OF_REQUESTS: Final = f"""
    SELECT account_id, ended_ms / {DAY_MS} AS day, model, key_id, {_sum_requests(_add_up)}
    FROM requests
    WHERE {HAS_COST} AND ended_ms >= :kept_from GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
DIFFERENCES: Final = f"""
    SELECT coalesce(name, CAST(account_id AS TEXT)), sums.day, model, key_id
    FROM (
        {_OF_DAYS} EXCEPT {_OF_REQUESTS}
        UNION SELECT * FROM ({_OF_REQUESTS} EXCEPT {_OF_DAYS}) AS others
    ) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
    GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
"""Days whose sums are not those of their requests; on either side, as one may lack a day."""
