"""The queries of the audit: each finds rows that contradict others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from gateway.ledger.sql import costs
from gateway.ledger.sql.budgets import OTHERS_BUDGETS, WRONG_BUDGETS
from gateway.money import SEARCHES_PER_PRICE, TOKENS_PER_PRICE


class Check(NamedTuple):
    """A query for violations and a text for them.

    `:since` is the last entry already proven, `:kept_from` the time since which all requests are
    kept.
    """

    sql: str
    message: str
    show: Callable[[Sequence[Any]], Sequence[object]] = tuple
    """Makes a row fit for the text."""


CHECKS: Final = (
    Check(
        """
        SELECT name, balance_nano, before + added
        FROM (
            SELECT accounts.name, accounts.balance_nano,
                coalesce((
                    SELECT balance_after_nano FROM entries
                    WHERE account_id = accounts.id AND id <= :since ORDER BY id DESC LIMIT 1
                ), 0) AS before,
                coalesce((
                    SELECT sum(amount_nano) FROM entries
                    WHERE account_id = accounts.id AND id > :since
                ), 0) AS added
            FROM accounts
        )
        WHERE balance_nano <> before + added
        """,
        "account {0}: balance is {1}, the sum of its entries {2} nano-units",
    ),
    Check(
        """
        SELECT id, balance_after_nano, before + amount_nano
        FROM (
            SELECT id, amount_nano, balance_after_nano,
                coalesce(
                    lag(balance_after_nano) OVER (PARTITION BY account_id ORDER BY id),
                    (
                        SELECT earlier.balance_after_nano FROM entries AS earlier
                        WHERE earlier.account_id = entries.account_id AND earlier.id <= :since
                        ORDER BY earlier.id DESC LIMIT 1
                    ),
                    0
                ) AS before
            FROM entries WHERE id > :since
        )
        WHERE balance_after_nano <> before + amount_nano
        """,
        "entry {0}: balance after it is {1}, should be {2} nano-units",
    ),
    Check(
        """
        SELECT entries.id, entries.request_id
        FROM entries LEFT JOIN requests ON requests.id = entries.request_id
        WHERE entries.id > :since AND entries.kind = 'charge' AND (
            requests.state IS NOT 'posted'
            OR requests.cost_nano <> -entries.amount_nano
            OR requests.account_id <> entries.account_id
        )
        """,
        "entry {0}: its request {1} is not posted at its amount and account",
    ),
)

_DIFFERENCES: Final = """
    SELECT coalesce(name, account_id), strftime('%Y-%m-%dT%H:%MZ', begins, 'unixepoch'), model,
        key_id, requests, failed, tokens, cost_nano
    FROM (
        SELECT account_id, begins, model, key_id, sum(requests) AS requests,
            sum(failed) AS failed, abs(sum(input_tokens)) + abs(sum(cached_input_tokens))
            + abs(sum(cache_write_tokens)) + abs(sum(output_tokens)) AS tokens,
            sum(cost_nano) AS cost_nano
        FROM ({}) GROUP BY 1, 2, 3, 4
    ) AS sums LEFT JOIN accounts ON accounts.id = sums.account_id
    WHERE requests OR failed OR tokens OR sums.cost_nano
"""
"""Sums over rows that cancel each other out if they agree."""

_HOURS_AGAINST_REQUESTS: Final = """
    SELECT account_id, hour * 3600 AS begins, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM hourly
    UNION ALL
    SELECT account_id, ended_ms / 3600000 * 3600, model, key_id,
        -(state = 'posted'), -(state = 'voided'),
        iif(state = 'posted', -input_tokens, 0),
        iif(state = 'posted', -cached_input_tokens, 0),
        iif(state = 'posted', -cache_write_tokens - cache_write_1h_tokens, 0),
        iif(state = 'posted', -output_tokens, 0),
        -cost_nano
    FROM requests WHERE state <> 'pending'
"""
_DAYS_AGAINST_HOURS: Final = """
    SELECT account_id, day * 86400 AS begins, model, key_id, requests, failed, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cost_nano
    FROM daily
    UNION ALL
    SELECT account_id, hour / 24 * 86400, model, key_id, -requests, -failed, -input_tokens,
        -cached_input_tokens, -cache_write_tokens, -output_tokens, -cost_nano
    FROM hourly
"""

COST: Final = f"""
    input_tokens * input_price_nano + cached_input_tokens * cached_input_price_nano
    + cache_write_tokens * cache_write_price_nano
    + cache_write_1h_tokens * cache_write_1h_price_nano + output_tokens * output_price_nano
    + web_searches * web_search_price_nano * {TOKENS_PER_PRICE // SEARCHES_PER_PRICE}
"""
"""The cost before its division by a million. It may be more than 64 bits hold."""
COSTS_MESSAGE: Final = "request {0}: its cost is {1}, its tokens at its prices make {2} nano-units"

FULL_CHECKS: Final = (
    Check(
        """
        SELECT codes.id, codes.entry_id
        FROM codes LEFT JOIN entries ON entries.id = codes.entry_id
        WHERE codes.entry_id IS NOT NULL AND (
            entries.kind IS NOT 'code'
            OR entries.amount_nano <> codes.amount_nano
            OR entries.account_id <> codes.redeemed_by
        )
        """,
        "code {0}: its entry {1} has another kind, amount or account",
    ),
    Check(
        """
        SELECT id FROM entries
        WHERE kind = 'code' AND NOT EXISTS (SELECT 1 FROM codes WHERE codes.entry_id = entries.id)
        """,
        "entry {0}: no code was redeemed by it",
    ),
    Check(
        """
        SELECT requests.id
        FROM requests LEFT JOIN entries
            ON entries.request_id = requests.id AND entries.kind = 'charge'
        WHERE requests.state = 'posted' AND entries.id IS NULL
        """,
        "request {0}: posted without a charge",
    ),
    Check(
        """
        SELECT keys.id, keys.spent_nano, coalesce(posted.cost_nano, 0)
        FROM keys LEFT JOIN (
            SELECT key_id, sum(cost_nano) AS cost_nano FROM requests
            WHERE state = 'posted' GROUP BY key_id
        ) AS posted ON posted.key_id = keys.id
        WHERE keys.spent_nano <> coalesce(posted.cost_nano, 0)
        """,
        "key {0}: spent is {1}, the sum of its requests {2} nano-units",
    ),
    Check(
        WRONG_BUDGETS,
        "budget {0}: spent is {1}, the sum of its requests in its period {2} nano-units",
    ),
    Check(
        OTHERS_BUDGETS,
        "request {0}: its budget {1} is another account's",
    ),
    Check(
        _DIFFERENCES.format(_HOURS_AGAINST_REQUESTS),
        "account {0}, hour {1}, model {2}, key {3}: the hour's sums differ from its requests by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
    ),
    Check(
        _DIFFERENCES.format(_DAYS_AGAINST_HOURS),
        "account {0}, day {1}, model {2}, key {3}: the day's sums differ from those of its hours by"
        " {4} posted, {5} failed, {6} tokens, {7} nano-units",
    ),
    Check(
        costs.DIFFERENCES,
        "account {0}, day {1}, model {2}, key {3}: the day's costs are not those of its requests",
    ),
)
