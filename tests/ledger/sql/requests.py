"""Requests of the past, written as the serving ledger of a file writes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import count

from gateway.base.ids import find_first_id
from gateway.ledger.base import Account, Hold, Key, Line, Settlement
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.queue import Item, Report
from gateway.ledger.sqlite.batch import KnownValues, commit_requests
from tests.ledger.contract.kit import admission

_numbers = count(1)


def make_item(
    account_id: int, key_id: str, started_ms: int, settlement: Settlement | None = None
) -> Item:
    """Make a request, whose id has its time; it stays pending without a settlement."""
    account = Account(account_id, "", suspended=False, balance_nano=0)
    id_ = f"{find_first_id(started_ms)}{next(_numbers):016x}"
    begun = admission(id_=id_, started_ms=started_ms)
    hold = Hold(begun, account, Key(key_id, account, KeyTerms(), Line(key_id)), begun.hold_nano)
    return Item(hold, insert=True, settlement=settlement)


def add_requests(connection: sqlite3.Connection, items: Sequence[Item], now_ms: int) -> None:
    """Write the requests and their charges at a time."""
    commit_requests(connection, items, now_ms, KnownValues(), Report())
