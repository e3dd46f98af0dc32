"""A database that several nodes of one process share, with an account and a key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from gateway.admin import keys
from gateway.base import ids
from gateway.base.ids import make_request_id
from gateway.base.times import unix_ms
from gateway.extras.postgres.schema import SILENCE_SECONDS
from gateway.extras.postgres.serving import open_postgres
from gateway.ledger.base import COMMIT_SECONDS, Admission, Key, Settlement
from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from tests.extras.postgres.fleet import WRONG_SUMS
from tests.ledger.contract import kit


@dataclass(frozen=True, slots=True)
class Shared:
    """The database, and the key of the account `a`."""

    url: str
    digest: bytes

    def serve(
        self,
        *,
        url: str | None = None,
        commit_seconds: float = COMMIT_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> AbstractAsyncContextManager[ServingLedger]:
        """Open one node more, by another way if `url` is given."""
        return open_postgres(
            url or self.url, commit_seconds=commit_seconds, silence_seconds=silence_seconds
        )

    def open_books(self) -> Books:
        return open_books(DatabaseUrl(self.url))

    def find_key(self, ledger: ServingLedger) -> Key:
        key = ledger.find_key(self.digest)
        assert key is not None
        return key

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(sql.encode(), values).fetchall()

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            yield connection

    def read_balance(self) -> int:
        ((balance_nano,),) = self.query("SELECT balance_nano FROM accounts WHERE name = 'a'")
        return int(balance_nano)

    def assert_sound(self) -> None:
        """Prove the books by the audit, and the holds."""
        assert self.query(WRONG_SUMS) == []
        with self.open_books() as books:
            report = books.audit()
        assert (report.problems, report.pending) == ((), 0)


def make_shared(url: str, *, credit_nano: int = 10**12) -> Shared:
    """Make the ledger with the account `a` and its key."""
    with open_books(DatabaseUrl(url), create=True) as books:
        books.accounts.create("a", credit_nano=credit_nano)
        new = keys.add_key(books, "a")
    return Shared(url, ids.digest(new.secret))


def admission(
    hold_nano: int = 1000, *, stream: bool = False, full_nano: int = 0, full_below_nano: int = 0
) -> Admission:
    """Describe a request of this moment."""
    now_ms = unix_ms()
    asked = kit.admission(hold_nano, stream=stream, id_=make_request_id(now_ms), started_ms=now_ms)
    return replace(asked, full_nano=full_nano, full_below_nano=full_below_nano)


def settlement(cost_nano: int, *, withdraw_if_late: bool = False) -> Settlement:
    """Describe its end, now."""
    return kit.settlement(cost_nano, ended_ms=unix_ms(), withdraw_if_late=withdraw_if_late)
