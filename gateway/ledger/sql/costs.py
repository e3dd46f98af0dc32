"""The SQL of what providers bill: sums over requests and over days, and where they differ."""

from __future__ import annotations

from typing import Final

from gateway.ledger.usage_records import ProviderCosts

_IS_KNOWN: Final = "provider_cost_nano IS NOT NULL"
_IS_REPORTED: Final = "reported_cost_nano IS NOT NULL"
OF_REQUESTS: Final = f"""
    coalesce(sum({_IS_KNOWN}), 0), coalesce(sum(iif({_IS_KNOWN}, cost_nano, 0)), 0),
    coalesce(sum(provider_cost_nano), 0), coalesce(sum({_IS_REPORTED}), 0),
    coalesce(sum(reported_cost_nano), 0), coalesce(sum({_IS_KNOWN} AND {_IS_REPORTED}), 0),
    coalesce(sum(reported_cost_nano - provider_cost_nano), 0)
"""
"""SQL of `ProviderCosts`, summed over requests."""
OF_DAYS: Final = ", ".join(f"sum({name})" for name in ProviderCosts._fields)
"""SQL of `ProviderCosts`, summed over days."""
HAS_COST: Final = f"state = 'posted' AND ({_IS_KNOWN} OR {_IS_REPORTED})"

DIFFERENCES: Final = f"""
    SELECT coalesce(name, account_id), date(sums.day * 86400, 'unixepoch'), model, key_id
    FROM (
        SELECT account_id, day, model, key_id, {OF_DAYS} FROM daily_costs GROUP BY 1, 2, 3, 4
        EXCEPT
        SELECT account_id, ended_ms / 86400000, model, key_id, {OF_REQUESTS}
        FROM requests WHERE {HAS_COST} GROUP BY 1, 2, 3, 4
        UNION
        SELECT * FROM (
            SELECT account_id, ended_ms / 86400000 AS day, model, key_id, {OF_REQUESTS}
            FROM requests WHERE {HAS_COST} GROUP BY 1, 2, 3, 4
            EXCEPT
            SELECT account_id, day, model, key_id, {OF_DAYS} FROM daily_costs GROUP BY 1, 2, 3, 4
        )
    ) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
    GROUP BY 1, 2, 3, 4
"""  # noqa: S608 - of constants
"""Days whose sums are not those of their requests; on either side, as one may lack a day."""
