"""The one transaction that moves money for requests, run by the server's writer.

BEGIN IMMEDIATE; read the touched balances; compute each entry's balance after it in Python; write
requests, entries, accounts and budgets; COMMIT. Balances are computed from what was read inside the
transaction, so no other process's commit can be lost. Sums of the charges follow, see `folds`.

A budget's sum belongs to the period at the time of the commit. It is added to while that period
lasts. When another one has begun, or the clock was set back to an earlier one, it is read anew from
the requests, so a late settlement or a wrong clock cannot leave it wrong.

What extras write beside the books has a transaction of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, cast

from gateway.ledger.base import PENDING, Aside, Hold, Settlement, write_end
from gateway.ledger.budget_records import Spending, find_span
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.serving.queue import Item, NotPendingError, Report
from gateway.ledger.sql.database import Connection, Row
from gateway.ledger.sql.rows import sum_charges
from gateway.ledger.sqlite.folds import count_and_file
from gateway.ledger.sqlite.statements import (
    read_rows,
    run_all_rows,
    run_rows,
    transaction,
    transaction_aside,
    write_insert,
    write_update,
)

Charge = tuple[Hold, Settlement]

_INSERT_PRICES: Final = write_insert("INSERT OR IGNORE INTO prices (id, price)", 2)
_ENDED: Final = ("id", "price_id", *PENDING, "ended_ms", "charge_id")
_OPENED: Final = (
    "account_id", "key_id", "budget_id", "model", "stream", "hold_nano", "started_ms",
)  # fmt: skip
"""The columns of a request that its end sets, and those that stay."""
_NEW: Final = (*_ENDED, *_OPENED)
# Itemgetters read these fields in C, as each request needs them.
_read_new: Final = itemgetter(*_NEW)
_read_ended: Final = itemgetter(*_ENDED)
_INSERT_REQUESTS: Final = write_insert(f"INSERT INTO requests ({', '.join(_NEW)})", len(_NEW))
_SETTLE_REQUESTS: Final = write_update("requests", *_ENDED[1:], more="AND state = 'pending'")
_INSERT_CHARGES: Final = write_insert(
    "INSERT INTO entries (id, kind, account_id, amount_nano, balance_after_nano, request_id, created_ms)",
    7,
)
_READ_BALANCES: Final = (
    "SELECT json_array((SELECT coalesce(max(id), 0) FROM entries),"
    " json_group_array(json_array(id, balance_nano))) FROM accounts WHERE id IN"
)
"""The last entry's id, and the balances. They are read at once: each statement gives up the GIL."""
_WRITE_BALANCES: Final = write_update("accounts", "balance_nano")
_READ_SPENT: Final = (
    "SELECT json_group_array(json_array(id, spent_nano + coalesce(("
    " SELECT sum(unfolded.cost_nano) FROM unfolded CROSS JOIN keys AS used ON used.id = key_id"
    " WHERE used.origin_id = keys.id"
    "), 0))) FROM keys WHERE id IN"
)
"""The spending of these keys' lines, with the charges that are not in the sums yet."""
_READ_BUDGETS: Final = (
    "SELECT json_group_array(json_array(id, period, period_day, spent_nano))"
    " FROM budgets WHERE id IN"
)
_WRITE_BUDGETS: Final = write_update("budgets", "spent_nano", "period_day")


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Values that this process has committed and no other process changes."""

    prices: set[int] = field(default_factory=set)
    spent_nano: dict[str, int] = field(default_factory=dict)
    """Spending by the first key of each line. Only the process that serves charges."""


def commit_requests(
    connection: sqlite3.Connection,
    items: Sequence[Item],
    now_ms: int,
    known: KnownValues,
    report: Report,
) -> None:
    """Write all items in one transaction, or none; add the committed values to `known` and to the report."""
    charges: list[Charge] = []
    voided, pending = list[str](), list[str]()
    balances_nano, spent, spendings = dict[int, int](), dict[str, int](), dict[int, Spending]()
    for item in items:
        end = item.settlement
        if end is not None and end.is_posted:
            charges.append((item.hold, end))
        else:
            (pending if end is None else voided).append(item.request_id)
    accounts = {hold.account.id for hold, _ in charges}
    with transaction(connection):
        new_prices = _insert_prices(connection, items, known.prices)
        # Requests name their charges and come first: with the lock, nobody else takes the ids behind the last.
        last_id, balances = read_rows(connection, _READ_BALANCES, accounts) if charges else (0, ())
        _write_requests(connection, items, last_id)
        if charges:
            # Before the entries are written: they are not in the sums yet and would count twice.
            spent = _add_spent(connection, charges, known.spent_nano)
            balances_nano = _post_charges(connection, charges, dict(balances), last_id, now_ms)
            # Budgets may be summed up anew from the requests, so those are written by now.
            spendings = _charge_budgets(connection, charges, now_ms)
        if voided or pending:
            count_and_file(connection, voided, pending)
    # Only after the commit: values of a batch that was rolled back are not in the database.
    known.prices.update(new_prices)
    known.spent_nano.update(spent)
    report.balances_nano.update(balances_nano)
    report.spent_nano.update(spent)
    report.spendings.update(spendings)
    report.done.extend(items)


def _insert_prices(
    connection: sqlite3.Connection, items: Sequence[Item], known: Container[int]
) -> Iterable[int]:
    """Insert the prices that requests will refer to, and return their ids; one that is there is left alone."""
    prices = [(item.settlement or item.hold.admission).price for item in items]
    new = {price.id: price.text for price in prices if price.id not in known}
    if new:
        run_rows(connection, _INSERT_PRICES, [*new.items()])
    return new


def _write_requests(connection: sqlite3.Connection, items: Sequence[Item], last_id: int) -> None:
    """Insert or settle the requests; their charges get the ids behind the last entry's."""
    new: list[Row] = []
    ended: list[Row] = []
    for item in items:
        hold, admission, end = item.hold, item.hold.admission, item.settlement
        row = {**PENDING, "provider": admission.provider} if end is None else write_end(end)
        row["id"], row["charge_id"] = admission.request_id, None
        row["price_id"] = (admission if end is None else end).price.id
        row["ended_ms"] = None if end is None else end.ended_ms
        if row["state"] == "posted":
            last_id += 1
            row["charge_id"] = last_id
        if not item.insert:
            ended.append(_read_ended(row))
            continue
        row["account_id"], row["key_id"] = hold.account.id, hold.key.id
        row["budget_id"] = None if hold.budget is None else hold.budget.id
        row["model"], row["stream"] = admission.model, admission.stream
        row["hold_nano"], row["started_ms"] = admission.hold_nano, admission.started_ms
        new.append(_read_new(row))
    if new:
        run_rows(connection, _INSERT_REQUESTS, new)
    # The statement skips requests that are not pending; the count shows it, and the batch is undone.
    if ended and run_rows(connection, _SETTLE_REQUESTS, ended).rowcount != len(ended):
        raise NotPendingError("a request to settle is missing or was settled before")


def _add_spent(
    connection: sqlite3.Connection, charges: Sequence[Charge], known_nano: Mapping[str, int]
) -> dict[str, int]:
    """Return what the lines of the charged keys have spent, by their first keys."""
    added: dict[str, int] = {}
    for hold, end in charges:
        origin = hold.key.line.id
        added[origin] = added.get(origin, 0) + end.cost_nano
    # Once for each line since the start: after that it is only this process that adds to it.
    unread = added.keys() - known_nano.keys()
    read = dict(read_rows(connection, _READ_SPENT, unread)) if unread else {}
    spent: dict[str, int] = {}
    for origin, cost_nano in added.items():
        spent[origin] = (read if origin in read else known_nano)[origin] + cost_nano
        # The batch is undone then, and tried again item by item, so that only this charge fails.
        if spent[origin] > MAX_INTEGER:
            raise OverflowError("a key would have spent more than the ledger can keep")
    return spent


def _post_charges(
    connection: sqlite3.Connection,
    charges: Sequence[Charge],
    balances_nano: dict[int, int],
    last_id: int,
    now_ms: int,
) -> dict[int, int]:
    """Append an entry for each charge; return the balances of their accounts after them."""
    rows: list[Row] = []
    # In their order: several entries may be of one account, each with the balance after it.
    for entry_id, (hold, end) in enumerate(charges, last_id + 1):
        account_id = hold.account.id
        balances_nano[account_id] -= end.cost_nano
        about = (balances_nano[account_id], hold.admission.request_id, now_ms)
        rows.append((entry_id, "charge", account_id, -end.cost_nano, *about))
    run_rows(connection, _INSERT_CHARGES, rows)
    run_rows(connection, _WRITE_BALANCES, [*balances_nano.items()])
    return balances_nano


def _charge_budgets(
    connection: sqlite3.Connection, charges: Sequence[Charge], now_ms: int
) -> dict[int, Spending]:
    """Add charges whose requests are written to their budgets; return what these have spent."""
    ends: dict[int, list[Settlement]] = {}
    for hold, end in charges:
        if hold.budget is not None:
            ends.setdefault(hold.budget.id, []).append(end)
    if not ends:
        return {}
    spendings = {}
    for budget_id, period, period_day, spent_nano in read_rows(connection, _READ_BUDGETS, ends):
        span = find_span(period, now_ms)
        if span.first_day == period_day:
            # A request that ended in the period before has no part in this sum.
            added = (one.cost_nano for one in ends[budget_id] if span.contains(one.ended_ms))
            spendings[budget_id] = Spending(span, spent_nano + sum(added))
        else:
            # The requests tell, those of this batch among them: they are written already.
            spendings[budget_id] = Spending(span, sum_charges(connection, budget_id, span))
    rows = [(id_, one.spent_nano, one.span.first_day) for id_, one in spendings.items()]
    run_rows(connection, _WRITE_BUDGETS, rows)
    return spendings


def write_aside(connection: sqlite3.Connection, write: Aside) -> None:
    """Write what no request waits for."""
    with transaction_aside(connection):
        write(connection, _insert_rows)


def _insert_rows(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    if rows:
        into, then = sql.split("VALUES")
        statement = write_insert(into, len(rows[0]), then)
        run_all_rows(cast("sqlite3.Connection", connection), statement, rows)
