"""The one transaction that moves money, run by the server's writer and by the operator's verbs.

BEGIN IMMEDIATE; read the touched balances; compute each entry's balance after it in Python; write
requests, entries, accounts, keys, budgets and the sums by hour and day; COMMIT. All is computed from what
was read inside the transaction, so no other process's commit can be lost.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.ledger.base import Admission, Hold, Settlement
from gateway.ledger.budget_records import Spending
from gateway.ledger.serving.rounds import Item
from gateway.ledger.sql.posting import Draft
from gateway.ledger.sqlite.budgets import charge_budgets
from gateway.ledger.sqlite.costs import add_costs
from gateway.ledger.sqlite.rows import Statement, read_numbers, run_rows
from gateway.ledger.sqlite.schema import transaction
from gateway.ledger.sqlite.totals import add_totals
from gateway.money import Price

_INSERT_REQUESTS: Final = Statement(
    "INSERT INTO requests (id, account_id, key_id, model, stream, hold_nano, input_price_nano,"
    " cached_input_price_nano, cache_write_price_nano, output_price_nano, request_price_nano,"
    " started_ms, state, provider, attempts, outcome, status, input_tokens, cached_input_tokens,"
    " cache_write_tokens, output_tokens, cost_nano, estimated, first_byte_ms, ended_ms,"
    " cache_write_1h_tokens, web_searches, price_rule, cache_write_1h_price_nano,"
    " web_search_price_nano, provider_cost_nano, reported_cost_nano, budget_id)"
    " SELECT * FROM",
    "WHERE column1 NOT NULL",
)
_SETTLE_REQUESTS: Final = Statement(
    "UPDATE requests SET state = new.column2, provider = new.column3, attempts = new.column4,"
    " outcome = new.column5, status = new.column6, input_tokens = new.column7,"
    " cached_input_tokens = new.column8, cache_write_tokens = new.column9,"
    " output_tokens = new.column10, cost_nano = new.column11, estimated = new.column12,"
    " first_byte_ms = new.column13, ended_ms = new.column14, cache_write_1h_tokens = new.column15,"
    " web_searches = new.column16, price_rule = new.column17, cache_write_1h_price_nano ="
    " new.column18, web_search_price_nano = new.column19, input_price_nano = new.column20,"
    " cached_input_price_nano = new.column21, cache_write_price_nano = new.column22,"
    " output_price_nano = new.column23, request_price_nano = new.column24,"
    " provider_cost_nano = new.column25, reported_cost_nano = new.column26 FROM",
    "AS new WHERE requests.id = new.column1 AND requests.state = 'pending'",
)
_INSERT_ENTRIES: Final = Statement(
    "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id,"
    " idempotency_key, note, created_ms) SELECT * FROM",
    "WHERE column1 NOT NULL",
)
_READ_BALANCES: Final = Statement(
    "SELECT json_group_array(json_array(id, balance_nano)) FROM accounts WHERE id IN"
)
_WRITE_BALANCES: Final = Statement(
    "UPDATE accounts SET balance_nano = new.column2 FROM", "AS new WHERE accounts.id = new.column1"
)
_READ_SPENT: Final = Statement(
    "SELECT json_group_array(json_array(id, spent_nano)) FROM keys WHERE id IN"
)
_WRITE_SPENT: Final = Statement(
    "UPDATE keys SET spent_nano = new.column2,"
    " last_used_ms = max(coalesce(last_used_ms, 0), new.column3) FROM",
    "AS new WHERE keys.id = new.column1",
)

Cell = int | str | None


class NotPendingError(Exception):
    """The request to settle does not exist or was settled before."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Balances and spending of the touched accounts, keys and budgets, to be assigned in memory."""

    balances_nano: dict[int, int]
    spent_nano: dict[str, int]
    spendings: dict[int, Spending]


def commit_requests(
    connection: sqlite3.Connection, items: Sequence[Item], now_ms: int
) -> Committed:
    """Write all items in one transaction, or none of them."""
    with transaction(connection):
        rows = [(*_open(i), *_close(i), *_costs(i), _budget_id(i)) for i in items if i.insert]
        run_rows(connection, _INSERT_REQUESTS, rows)
        _settle(connection, [i for i in items if not i.insert])
        ended = [(i.hold, i.settlement) for i in items if i.settlement is not None]
        charges = [(hold, settlement) for hold, settlement in ended if settlement.is_posted]
        balances = post_entries(
            connection,
            [_charge(hold, settlement, now_ms) for hold, settlement in charges],
        )
        spent = _add_spent(connection, charges)
        spendings = charge_budgets(connection, charges, now_ms)
        add_totals(connection, ended)
        add_costs(connection, charges)
    return Committed(balances, spent, spendings)


def post_entries(connection: sqlite3.Connection, drafts: Sequence[Draft]) -> dict[int, int]:
    """Append entries, in order, inside a transaction; return the balances after them."""
    balances = read_numbers(connection, _READ_BALANCES, {d.account_id for d in drafts})
    rows = []
    for draft in drafts:
        balances[draft.account_id] += draft.amount_nano
        rows.append(_entry_row(draft, balances[draft.account_id]))
    run_rows(connection, _INSERT_ENTRIES, rows)
    run_rows(connection, _WRITE_BALANCES, list(balances.items()))
    return balances


def _add_spent(
    connection: sqlite3.Connection, charges: Iterable[tuple[Hold, Settlement]]
) -> dict[str, int]:
    added: dict[str, tuple[int, int]] = {}
    for hold, settlement in charges:
        cost_nano, used_ms = added.get(hold.key.id, (0, 0))
        added[hold.key.id] = (
            cost_nano + settlement.cost_nano,
            max(used_ms, settlement.ended_ms),
        )
    spent = read_numbers(connection, _READ_SPENT, added)
    for key_id, (cost_nano, _) in added.items():
        spent[key_id] += cost_nano
    rows = [(key_id, spent[key_id], used_ms) for key_id, (_, used_ms) in added.items()]
    run_rows(connection, _WRITE_SPENT, rows)
    return spent


def _settle(connection: sqlite3.Connection, items: Sequence[Item]) -> None:
    rows = [
        (i.hold.admission.request_id, *_close(i), *_common_prices(_price(i)), *_costs(i))
        for i in items
    ]
    if run_rows(connection, _SETTLE_REQUESTS, rows) != len(rows):
        raise NotPendingError("a request to settle is missing or was settled before")


def _open(item: Item) -> tuple[Cell, ...]:
    """Return the columns known at admission."""
    hold, admission = item.hold, item.hold.admission
    return (
        admission.request_id,
        hold.account.id,
        hold.key.id,
        admission.model,
        admission.stream,
        admission.hold_nano,
        *_common_prices(_price(item)),
        admission.started_ms,
    )


def _close(item: Item) -> tuple[Cell, ...]:
    """Return the columns of the end, or those of a pending request."""
    settlement = item.settlement
    if settlement is None:
        return _pending(item.hold.admission)
    tokens = settlement.tokens
    return (
        "posted" if settlement.is_posted else "voided",
        settlement.provider,
        settlement.attempts,
        settlement.outcome,
        settlement.status,
        tokens.input,
        tokens.cached_input,
        tokens.cache_write,
        tokens.output,
        settlement.cost_nano,
        settlement.estimated,
        settlement.first_byte_ms,
        settlement.ended_ms,
        tokens.cache_write_1h,
        settlement.web_searches,
        settlement.price_rule,
        settlement.price.cache_write_1h,
        settlement.price.web_search,
    )


def _budget_id(item: Item) -> int | None:
    budget = item.hold.budget
    return None if budget is None else budget.id


def _pending(admission: Admission) -> tuple[Cell, ...]:
    price = admission.price
    return (
        *("pending", admission.provider, 0, "pending", None, 0, 0, 0, 0, 0, 0, None, None),
        *(0, 0, "", price.cache_write_1h, price.web_search),
    )


def _costs(item: Item) -> tuple[int | None, int | None]:
    """Return what the provider bills: columns that only charged requests have."""
    settlement = item.settlement
    if settlement is None or not settlement.is_posted:
        return (None, None)
    return (settlement.provider_cost_nano, settlement.reported_cost_nano)


def _price(item: Item) -> Price:
    """Return the price that applied or, until the end, the one that the hold was computed from."""
    return item.hold.admission.price if item.settlement is None else item.settlement.price


def _common_prices(price: Price) -> tuple[int, ...]:
    """The prices that all versions of the schema have."""
    return (price.input, price.cached_input, price.cache_write, price.output, price.request)


def _charge(hold: Hold, settlement: Settlement, now_ms: int) -> Draft:
    return Draft(
        account_id=hold.account.id,
        kind="charge",
        amount_nano=-settlement.cost_nano,
        created_ms=now_ms,
        request_id=hold.admission.request_id,
    )


def _entry_row(draft: Draft, balance_after_nano: int) -> tuple[Cell, ...]:
    return (
        draft.account_id,
        draft.kind,
        draft.amount_nano,
        balance_after_nano,
        draft.request_id,
        draft.idempotency_key,
        draft.note,
        draft.created_ms,
    )
