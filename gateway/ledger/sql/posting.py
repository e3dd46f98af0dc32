"""Entries that the operator's verbs append; those of requests come in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.ledger.records import EntryKind
from gateway.ledger.sql.connection import Connection

_BALANCE: Final = "SELECT balance_nano FROM accounts WHERE id = ?"
_INSERT: Final = (
    "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id,"
    " idempotency_key, note, created_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_ASSIGN: Final = "UPDATE accounts SET balance_nano = ? WHERE id = ?"


@dataclass(slots=True)
class Draft:
    """An entry before the balance after it is known."""

    account_id: int
    kind: EntryKind
    amount_nano: int
    created_ms: int
    request_id: str | None = None
    idempotency_key: str | None = None
    note: str = ""


def post_entry(connection: Connection, draft: Draft) -> None:
    """Append an entry and change the balance, inside the books' transaction."""
    (before_nano,) = connection.execute(_BALANCE, (draft.account_id,)).fetchone()
    balance_nano = before_nano + draft.amount_nano
    row = (draft.account_id, draft.kind, draft.amount_nano, balance_nano)
    about = (draft.request_id, draft.idempotency_key, draft.note, draft.created_ms)
    connection.execute(_INSERT, (*row, *about))
    connection.execute(_ASSIGN, (balance_nano, draft.account_id))
