"""The one transaction that moves money for requests, run by the server's writer.

BEGIN IMMEDIATE; read the touched balances; compute each entry's balance after it in Python; write
requests, entries, accounts and budgets; COMMIT. Balances are computed from what was read inside the
transaction, so no other process's commit can be lost. Sums of the charges follow, see `folds`.

Counts beside the books are written in a transaction of their own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, cast

from gateway.base.prices import AppliedPrice
from gateway.ledger.base import Hold, Settlement
from gateway.ledger.key_records import Spending
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.serving.observer import Observations
from gateway.ledger.serving.queue import Item, NotPendingError
from gateway.ledger.sql.database import Connection
from gateway.ledger.sql.observations import Row, write_observations
from gateway.ledger.sql.rows import PENDING, write_end
from gateway.ledger.sqlite.folds import file_calls, transaction_aside
from gateway.ledger.sqlite.schema import transaction
from gateway.ledger.sqlite.totals import (
    Statement,
    charge_budgets,
    count_voids,
    read_numbers,
    run_all_rows,
    run_rows,
)

_INSERT_PRICES: Final = Statement(
    "INSERT OR IGNORE INTO prices (id, price) SELECT * FROM", "WHERE column1 NOT NULL"
)
_OPENED: Final = (
    "id", "account_id", "key_id", "budget_id", "model", "stream", "hold_nano", "started_ms", "price_id",
)  # fmt: skip
_ENDED: Final = (*PENDING, "provider")
# An itemgetter reads these fields in C, as each request needs them.
_read_ended: Final = itemgetter(*_ENDED)
_CLOSED: Final = (*_ENDED, "ended_ms", "charge_id")
_INSERT_REQUESTS: Final = Statement(
    f"INSERT INTO requests ({', '.join((*_OPENED, *_CLOSED))}) SELECT * FROM",
    "WHERE column1 NOT NULL",
)
_SETTLED: Final = ", ".join(
    f"{name} = new.column{number}" for number, name in enumerate(("price_id", *_CLOSED), 2)
)
_SETTLE_REQUESTS: Final = Statement(
    f"UPDATE requests SET {_SETTLED} FROM",  # noqa: S608 - of constants
    "AS new WHERE requests.id = new.column1 AND requests.state = 'pending'",
)
_INSERT_CHARGES: Final = Statement(
    "INSERT INTO entries (kind, id, account_id, amount_nano, balance_after_nano, request_id, created_ms)"
    " SELECT 'charge', * FROM",
    "WHERE column1 NOT NULL",
)
_READ_LAST: Final = "SELECT coalesce(max(id), 0) FROM entries"
_READ_BALANCES: Final = Statement(
    "SELECT json_group_array(json_array(id, balance_nano)) FROM accounts WHERE id IN"
)
_WRITE_BALANCES: Final = Statement(
    "UPDATE accounts SET balance_nano = new.column2 FROM", "AS new WHERE accounts.id = new.column1"
)
_READ_SPENT: Final = Statement(
    "SELECT json_group_array(json_array(id, spent_nano + coalesce(("
    " SELECT sum(unfolded.cost_nano) FROM unfolded CROSS JOIN keys AS used ON used.id = key_id"
    " WHERE used.origin_id = keys.id"
    "), 0))) FROM keys WHERE id IN"
)
"""The spending of these keys' lines, with the charges that are not in the sums yet."""


@dataclass(frozen=True, slots=True)
class Committed:
    """Balances and spending of the touched accounts, keys and budgets, to be assigned in memory."""

    balances_nano: dict[int, int]
    spent_nano: dict[str, int]
    spendings: dict[int, Spending]


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Values that this process has committed and no other process changes."""

    prices: set[int] = field(default_factory=set)
    spent_nano: dict[str, int] = field(default_factory=dict)
    """Spending by the first key of each line. Only the process that serves charges."""


def commit_requests(
    connection: sqlite3.Connection, items: Sequence[Item], now_ms: int, known: KnownValues
) -> Committed:
    """Write all items in one transaction, or none; add the committed values to `known`."""
    new = {price.id: price.text for price in map(_price, items) if price.id not in known.prices}
    with transaction(connection):
        # Prices come first, as requests refer to them; a price that is there already is left alone.
        run_rows(connection, _INSERT_PRICES, list(new.items()))
        ended = [(i.hold, i.settlement) for i in items if i.settlement is not None]
        charges = [(hold, settlement) for hold, settlement in ended if settlement.is_posted]
        # Requests name their charges, and are written first. The transaction has the lock for writing,
        # so nobody else takes the ids behind the last one.
        (last,) = connection.execute(_READ_LAST).fetchone()
        charge_ids = {hold: id_ for id_, (hold, _) in enumerate(charges, last + 1)}
        _write_requests(connection, items, charge_ids)
        # Before the entries are written: they are not in the sums yet and would count twice.
        spent = _add_spent(connection, charges, known.spent_nano)
        balances = _post_charges(connection, charges, charge_ids, now_ms)
        # Budgets may be summed up anew from the requests, so those are written by now.
        spendings = charge_budgets(connection, charges, now_ms)
        voided = [hold.admission.request_id for hold, end in ended if not end.is_posted]
        count_voids(connection, voided)
        file_calls(connection, items)
    # Only after the commit: values of a batch that was rolled back are not in the database.
    known.prices.update(new)
    known.spent_nano.update(spent)
    return Committed(balances, spent, spendings)


def _post_charges(
    connection: sqlite3.Connection,
    charges: Sequence[tuple[Hold, Settlement]],
    charge_ids: Mapping[Hold, int],
    now_ms: int,
) -> dict[int, int]:
    """Append an entry for each charge; return the balances of their accounts after them."""
    balances = read_numbers(connection, _READ_BALANCES, {hold.account.id for hold, _ in charges})
    rows: list[Row] = []
    # In their order: several entries may be of one account, each with the balance after it.
    for hold, settlement in charges:
        account_id, cost_nano = hold.account.id, settlement.cost_nano
        balances[account_id] -= cost_nano
        about = (hold.admission.request_id, now_ms)
        rows.append((charge_ids[hold], account_id, -cost_nano, balances[account_id], *about))
    run_rows(connection, _INSERT_CHARGES, rows)
    run_rows(connection, _WRITE_BALANCES, list(balances.items()))
    return balances


def _add_spent(
    connection: sqlite3.Connection,
    charges: Iterable[tuple[Hold, Settlement]],
    known_nano: Mapping[str, int],
) -> dict[str, int]:
    """Return what the lines of the charged keys have spent, by their first keys."""
    added: dict[str, int] = {}
    for hold, settlement in charges:
        origin = hold.key.line.id
        added[origin] = added.get(origin, 0) + settlement.cost_nano
    # Once for each line since the start: after that it is only this process that adds to it.
    read = read_numbers(connection, _READ_SPENT, added.keys() - known_nano.keys())
    spent = {
        origin: (read if origin in read else known_nano)[origin] + cost_nano
        for origin, cost_nano in added.items()
    }
    # The batch is undone then, and tried again item by item, so that only this charge fails.
    if any(one > MAX_INTEGER for one in spent.values()):
        raise OverflowError("a key would have spent more than the ledger can keep")
    return spent


def _write_requests(
    connection: sqlite3.Connection, items: Sequence[Item], charge_ids: Mapping[Hold, int]
) -> None:
    new, known = list[Row](), list[Row]()
    for item in items:
        end = _close(item, charge_ids.get(item.hold))
        if item.insert:
            new.append((*_open(item), *end))
        else:
            known.append((item.request_id, _price(item).id, *end))
    run_rows(connection, _INSERT_REQUESTS, new)
    # The statement skips requests that are not pending; the count shows it, and the batch is undone.
    if run_rows(connection, _SETTLE_REQUESTS, known) != len(known):
        raise NotPendingError("a request to settle is missing or was settled before")


def _open(item: Item) -> Row:
    """Return the columns known at admission."""
    hold, admission = item.hold, item.hold.admission
    return (
        admission.request_id,
        hold.account.id,
        hold.key.id,
        None if hold.budget is None else hold.budget.id,
        admission.model,
        admission.stream,
        admission.hold_nano,
        admission.started_ms,
        _price(item).id,
    )


def _close(item: Item, charge_id: int | None) -> Row:
    """Return the columns `_CLOSED` of the end, or of a pending request."""
    end = item.settlement
    if end is None:
        pending = {**PENDING, "provider": item.hold.admission.provider}
        return (*_read_ended(pending), None, charge_id)
    return (*_read_ended(write_end(end)), end.ended_ms, charge_id)


def _price(item: Item) -> AppliedPrice:
    """Return the price that applied or, until the end, the one that the hold was computed from."""
    return item.hold.admission.price if item.settlement is None else item.settlement.price


def write_aside(connection: sqlite3.Connection, observed: Observations, now_ms: int) -> None:
    """Add the sums to what is stored; no request waits for it."""
    with transaction_aside(connection):
        write_observations(connection, observed, now_ms, _insert_rows)


def _insert_rows(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    into, then = sql.split("VALUES")
    statement = Statement(f"{into} SELECT * FROM", f"WHERE column1 NOT NULL {then}")
    run_all_rows(cast("sqlite3.Connection", connection), statement, rows)
