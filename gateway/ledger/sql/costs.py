"""The SQL of what providers bill: sums over requests and over days, and where they differ."""

from __future__ import annotations

from typing import Final

from gateway.ledger.usage_records import ProviderCosts
from gateway.times import DAY_MS

_IS_KNOWN: Final = "provider_cost_nano IS NOT NULL"
_IS_REPORTED: Final = "reported_cost_nano IS NOT NULL"
OF_REQUESTS: Final = f"""
    count(provider_cost_nano), coalesce(sum(cost_nano) FILTER (WHERE {_IS_KNOWN}), 0),
    coalesce(sum(provider_cost_nano), 0), count(reported_cost_nano),
    coalesce(sum(reported_cost_nano), 0), count(reported_cost_nano - provider_cost_nano),
    coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
"""
"""SQL of `ProviderCosts`, summed over requests."""
OF_DAYS: Final = ", ".join(f"sum({name})" for name in ProviderCosts._fields)
"""SQL of `ProviderCosts`, summed over days."""
HAS_COST: Final = f"state = 'posted' AND ({_IS_KNOWN} OR {_IS_REPORTED})"

_OF_DAYS: Final = f"""
    SELECT account_id, day, model, key_id, {OF_DAYS} FROM daily_costs
    WHERE day * {DAY_MS} >= :kept_from GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
_OF_REQUESTS: Final = f"""
    SELECT account_id, ended_ms / {DAY_MS} AS day, model, key_id, {OF_REQUESTS} FROM requests
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
