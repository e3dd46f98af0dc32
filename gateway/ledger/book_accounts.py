"""Accounts and what moves their balances, apart from requests."""

from __future__ import annotations

import sqlite3
from typing import Final

from gateway.ledger import reports
from gateway.ledger.batch import Draft, EntryKind, post_entries
from gateway.ledger.book import Book
from gateway.ledger.changes import append_change
from gateway.ledger.records import AccountView, Conflict, EntryView, NotFound, Refused
from gateway.money import format_amount

MAX_BALANCE_NANO: Final = 2**63 - 1
"""The largest integer that SQLite keeps."""


class AccountBook(Book):
    def accounts(self) -> list[AccountView]:
        with self.reading() as connection:
            return reports.read_accounts(connection)

    def account(self, name: str) -> AccountView:
        with self.reading() as connection:
            return reports.read_account(connection, name)

    def entries(self, account: str, limit: int) -> list[EntryView]:
        """The latest first."""
        with self.reading() as connection:
            return reports.read_entries(connection, account, limit)

    def create_account(
        self, name: str, *, credit_nano: int, operator: bool, note: str = ""
    ) -> AccountView:
        with self.changing() as connection:
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise Conflict(
                    f"there is an account '{name}' already", code="name_taken", field="name"
                )
            now_ms = self.clock()
            (account_id,) = connection.execute(
                "INSERT INTO accounts (name, operator, created_ms) VALUES (?, ?, ?) RETURNING id",
                (name, operator, now_ms),
            ).fetchone()
            if credit_nano:
                draft = Draft(account_id, "credit", credit_nano, now_ms, note=note)
                post_entries(connection, [draft])
            append_change(connection, "account", account_id)
            credited = f"with a credit of {format_amount(credit_nano)}" if credit_nano else ""
            self.note("account.add", account=name, detail=credited)
            return reports.read_account(connection, name)

    def set_suspended(self, name: str, *, suspended: bool, reason: str = "") -> AccountView:
        with self.changing() as connection:
            account = reports.read_account(connection, name)
            connection.execute(
                "UPDATE accounts SET suspended = ? WHERE id = ?", (suspended, account.id)
            )
            append_change(connection, "account", account.id)
            action = "account.suspend" if suspended else "account.resume"
            self.note(action, account=name, detail=reason)
            return reports.read_account(connection, name)

    def post(
        self,
        name: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        idempotency_key: str | None = None,
        request_id: str | None = None,
        target: str | None = None,
    ) -> EntryView:
        """Append one entry; with an idempotency key at most once, whoever asks how often.

        `target` is what it is noted under, if that is not the request.
        """
        with self.changing() as connection:
            account = reports.read_account(connection, name)
            draft = Draft(
                account.id, kind, amount_nano, self.clock(), request_id, idempotency_key, note
            )
            earlier = reports.find_by_idempotency_key(connection, account.id, idempotency_key)
            if earlier is not None:
                return _require_same(earlier, draft)
            _require_room(account, amount_nano)
            _require_request(connection, account, request_id)
            post_entries(connection, [draft])
            append_change(connection, "account", account.id)
            self.note(
                _ACTIONS[kind],
                account=name,
                target=target or request_id,
                detail=f"{format_amount(amount_nano)}: {note}"
                if note
                else format_amount(amount_nano),
            )
            return reports.read_entries(connection, name, 1)[0]


_ACTIONS: Final = {
    "credit": "account.credit",
    "correction": "account.correct",
    "code": "code.redeem",
}


def _require_same(earlier: EntryView, draft: Draft) -> EntryView:
    """A repeated call gives the earlier entry; another call under its key is a mistake."""
    if (earlier.kind, earlier.amount_nano, earlier.note, earlier.request_id) != (
        draft.kind,
        draft.amount_nano,
        draft.note,
        draft.request_id,
    ):
        raise Conflict(
            f"the idempotency key '{draft.idempotency_key}' was used before, for another entry"
        )
    return earlier


def _require_room(account: AccountView, amount_nano: int) -> None:
    if abs(account.balance_nano + amount_nano) > MAX_BALANCE_NANO:
        raise Refused(
            f"the balance of '{account.name}' would be beyond what the ledger can keep",
            field="amount",
        )


def _require_request(
    connection: sqlite3.Connection, account: AccountView, request_id: str | None
) -> None:
    if request_id is None:
        return
    found = connection.execute(
        "SELECT 1 FROM requests WHERE id = ? AND account_id = ?", (request_id, account.id)
    ).fetchone()
    if found is None:
        raise NotFound(
            f"account '{account.name}' has no request '{request_id}'", field="request_id"
        )
