"""Entries of accounts: credits, corrections and others, each appended once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.base.money import format_amount
from gateway.ledger import checks
from gateway.ledger.records import (
    MAX_INTEGER,
    AccountView,
    Conflict,
    EntryKind,
    EntryView,
    NotFound,
    Refused,
)
from gateway.ledger.sql.database import Part
from gateway.ledger.sql.rows import FILED_ENTRIES, Draft, post_entry

_ACTIONS: Final[Mapping[EntryKind, str]] = {
    "credit": "account.credit",
    "correction": "account.correct",
    "code": "code.redeem",
    "card": "order.pay",
}
_ENTRIES: Final = """
    SELECT entries.id, accounts.name, kind, amount_nano, balance_after_nano, request_id, note,
        entries.created_ms
    FROM {source} JOIN accounts ON accounts.id = entries.account_id
"""
LATEST_ENTRIES: Final = f"""
    {_ENTRIES.format(source=FILED_ENTRIES)}
    WHERE filed.account_id = (SELECT id FROM accounts WHERE name = ?)
    ORDER BY filed.id DESC LIMIT ?
"""  # noqa: S608 - built from constants
"""The account is known before entries are looked at, so that an index has them in order."""
_IDEMPOTENT_ENTRY: Final = (
    _ENTRIES.format(source="entries") + " WHERE account_id = ? AND idempotency_key = ?"
)


class EntryBook(Part):
    """With an idempotency key, a repeated call returns the entry of the first one."""

    def credit(
        self, account: str, amount_nano: int, *, note: str = "", idempotency_key: str | None = None
    ) -> EntryView:
        """Add to the balance."""
        checks.require_credit(amount_nano)
        checks.require_note("the note", note)
        checks.require_idempotency_key(idempotency_key)
        return self.post(account, "credit", amount_nano, note=note, idempotency_key=idempotency_key)

    def correct(
        self,
        account: str,
        amount_nano: int,
        *,
        note: str,
        request_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> EntryView:
        """Add to or take from the balance, for a reason, and for a request if one is named.

        An amount of 0 settles an interrupted request for which nothing is owed.
        """
        checks.require_text("the note of a correction", note, checks.MAX_NOTE_CHARS, "note")
        checks.require_amount(amount_nano)
        if amount_nano == 0 and request_id is None:
            raise Refused(
                "a correction of 0 corrects nothing, unless it names a request", field="amount"
            )
        checks.require_idempotency_key(idempotency_key)
        return self.post(
            account,
            "correction",
            amount_nano,
            note=note,
            idempotency_key=idempotency_key,
            request_id=request_id,
        )

    def post(
        self,
        account: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        idempotency_key: str | None = None,
        request_id: str | None = None,
        target: str | None = None,
        action: str | None = None,
    ) -> EntryView:
        """Append one entry, whose values were checked; the event has `target` and `action`."""
        with self._database.changing():
            owner = self._database.read_account(account)
            now_ms = self._database.clock()
            draft = Draft(owner.id, kind, amount_nano, now_ms, request_id, idempotency_key, note)
            # Before all checks: a repeated call is answered as the first, whatever has changed since.
            earlier = self.find_repeated(owner.id, idempotency_key)
            if earlier is not None:
                return _require_same(earlier, draft)
            _require_room(owner, amount_nano)
            self._require_request(owner, request_id)
            post_entry(self._database, draft)
            self._database.append_change("account", owner.id)
            said = format_amount(amount_nano) + (f": {note}" if note else "")
            about = target or request_id
            named = action or _ACTIONS[kind]
            self._database.note(named, account=account, target=about, detail=said)
            return self.read_latest(account, 1)[0]

    def read_latest(self, account: str, limit: int) -> list[EntryView]:
        """Return the latest entries of an account, the latest first."""
        return [
            EntryView(*row)
            for row in self._database.fetch(
                LATEST_ENTRIES, (self._database.name_account(account), limit)
            )
        ]

    def find_repeated(self, account_id: int, key: str | None) -> EntryView | None:
        """Return the entry that has an idempotency key."""
        if key is None:
            return None
        row = self._database.read_one(_IDEMPOTENT_ENTRY, (account_id, key))
        return None if row is None else EntryView(*row)

    def _require_request(self, account: AccountView, request_id: str | None) -> None:
        if request_id is None:
            return
        # Also filtered by account: the entry will show the request to the account's holder, so it must
        # be theirs.
        self._database.require_one(
            "SELECT 1 FROM requests WHERE id = ? AND account_id = ?",
            (request_id, account.id),
            NotFound(f"account '{account.name}' has no request '{request_id}'", field="request_id"),
        )


def _require_same(earlier: EntryView, draft: Draft) -> EntryView:
    """Return the earlier entry of a repeated call; refuse a different call under its key."""
    if (earlier.kind, earlier.amount_nano, earlier.note, earlier.request_id) != (
        draft.kind,
        draft.amount_nano,
        draft.note,
        draft.request_id,
    ):
        raise Conflict(
            f"the idempotency key '{draft.idempotency_key}' was used before, for another entry"
        )
    return replace(earlier, is_repeated=True)


def _require_room(account: AccountView, amount_nano: int) -> None:
    if abs(account.balance_nano + amount_nano) > MAX_INTEGER:
        raise Refused(
            f"the balance of '{account.name}' would be beyond what the ledger can keep",
            field="amount",
        )
