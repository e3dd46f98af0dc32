"""The keys of accounts."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from gateway.ledger import reports
from gateway.ledger.book import Book
from gateway.ledger.changes import append_change
from gateway.ledger.records import Conflict, KeyChanges, KeyTerms, KeyView
from gateway.money import format_amount


class KeyBook(Book):
    def keys(self, account: str | None = None) -> list[KeyView]:
        with self.reading() as connection:
            if account is not None:
                reports.read_account(connection, account)
            return reports.read_keys(connection, account)

    def key(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        """With an account's id, here as below: another account's key is as unknown as none."""
        with self.reading() as connection:
            return reports.read_key(connection, key_id, account_id)

    def keys_page(
        self,
        account_id: int,
        *,
        live_at_ms: int | None,
        after: tuple[str | int, ...] | None,
        limit: int,
    ) -> tuple[int, list[KeyView]]:
        """How many there are, and those behind `after` (created_ms, id), the newest first."""
        with self.reading() as connection:
            return reports.read_key_page(connection, account_id, live_at_ms, after, limit)

    def create_key(
        self, account: str, terms: KeyTerms, *, digest: bytes, last4: str, key_id: str
    ) -> KeyView:
        with self.changing() as connection:
            owner = reports.read_account(connection, account)
            _insert_key(connection, owner.id, terms, (key_id, digest, last4, self.clock()))
            self.note("key.add", account=account, target=key_id, detail=terms.name)
            return reports.read_key(connection, key_id)

    def edit_key(
        self, key_id: str, changes: KeyChanges, *, account_id: int | None = None
    ) -> KeyView:
        with self.changing() as connection:
            key = reports.read_key(connection, key_id, account_id)
            _require_working(key, self.clock())
            if key.replaced_by is not None and "expires_ms" in changes:
                raise Conflict(
                    f"key {key_id} was replaced by {key.replaced_by} and ends when its grace does;"
                    " revoke it to end it sooner",
                    code="already_replaced",
                )
            terms = replace(_terms_of(key), **changes)
            connection.execute(
                _EDIT,
                (terms.name, _to_json(terms.models), terms.cap_nano, terms.expires_ms, key_id),
            )
            append_change(connection, "key", key_id)
            detail = _describe_changes(changes)
            self.note("key.edit", account=key.account, target=key_id, detail=detail)
            return reports.read_key(connection, key_id)

    def replace_key(
        self,
        old_id: str,
        *,
        digest: bytes,
        last4: str,
        key_id: str,
        grace_ms: int,
        account_id: int | None = None,
    ) -> KeyView:
        """A new key on the old one's terms, with what is left of its cap; the old one expires.

        During the grace either may spend what was left, since each has its own account of it.
        """
        with self.changing() as connection:
            old = reports.read_key(connection, old_id, account_id)
            now_ms = self.clock()
            if old.replaced_by is not None:
                raise Conflict(
                    f"key {old_id} was replaced by {old.replaced_by}; rotate that one",
                    code="already_replaced",
                )
            _require_working(old, now_ms)
            owner = reports.read_account(connection, old.account)
            _insert_key(connection, owner.id, _rest_of(old), (key_id, digest, last4, now_ms))
            connection.execute(
                "UPDATE keys SET expires_ms = min(coalesce(expires_ms, :end), :end),"
                " replaced_by = :new WHERE id = :old",
                {"end": now_ms + grace_ms, "new": key_id, "old": old_id},
            )
            append_change(connection, "key", old_id)
            detail = f"replaced by {key_id}, grace {grace_ms // 1000} s"
            self.note("key.rotate", account=old.account, target=old_id, detail=detail)
            return reports.read_key(connection, key_id)

    def revoke_key(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        """From now on; a key revoked before stays so since then."""
        with self.changing() as connection:
            key = reports.read_key(connection, key_id, account_id)
            if key.revoked_ms is not None:
                return key
            connection.execute(
                "UPDATE keys SET revoked_ms = ? WHERE id = ?", (self.clock(), key_id)
            )
            append_change(connection, "key", key_id)
            self.note("key.revoke", account=key.account, target=key_id, detail=key.name)
            return reports.read_key(connection, key_id)


_EDIT: Final = "UPDATE keys SET name = ?, models = ?, cap_nano = ?, expires_ms = ? WHERE id = ?"


def _insert_key(
    connection: sqlite3.Connection,
    account_id: int,
    terms: KeyTerms,
    identity: tuple[str, bytes, str, int],
) -> None:
    connection.execute(
        "INSERT INTO keys (id, digest, last4, created_ms, account_id, name, models,"
        " requests_per_minute, tokens_per_minute, concurrency, cap_nano, expires_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *identity,
            account_id,
            terms.name,
            _to_json(terms.models),
            terms.requests_per_minute,
            terms.tokens_per_minute,
            terms.concurrency,
            terms.cap_nano,
            terms.expires_ms,
        ),
    )
    append_change(connection, "key", identity[0])


def _to_json(models: tuple[str, ...] | None) -> str | None:
    return None if models is None else orjson.dumps(models).decode()


def _terms_of(key: KeyView) -> KeyTerms:
    return KeyTerms(
        name=key.name,
        models=key.models,
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
        concurrency=key.concurrency,
        cap_nano=key.cap_nano,
        expires_ms=key.expires_ms,
    )


def _rest_of(old: KeyView) -> KeyTerms:
    if old.cap_nano is None:
        return _terms_of(old)
    return replace(_terms_of(old), cap_nano=max(old.cap_nano - old.spent_nano, 0))


def _require_working(key: KeyView, now_ms: int) -> None:
    if key.revoked_ms is not None:
        raise Conflict(f"key {key.id} is revoked; add a new one", code="key_dead")
    if key.expires_ms is not None and key.expires_ms <= now_ms:
        raise Conflict(f"key {key.id} has expired; add a new one", code="key_dead")


def _describe_changes(changes: KeyChanges) -> str:
    """What the terms are now, for the audit page."""
    said = []
    if "name" in changes:
        said.append(f"name '{changes['name']}'")
    if "cap_nano" in changes:
        cap_nano = changes["cap_nano"]
        said.append(f"cap {'none' if cap_nano is None else format_amount(cap_nano)}")
    if "expires_ms" in changes:
        said.append(f"expires {_describe_moment(changes['expires_ms'])}")
    if "models" in changes:
        said.append(f"models {', '.join(changes['models'] or ['all'])}")
    return "; ".join(said)


def _describe_moment(ms: int | None) -> str:
    if ms is None:
        return "never"
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M} UTC"
