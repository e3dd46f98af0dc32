"""The operator's books: all parts over one connection. Each database adds its audit and its backup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.ledger import books as contract
from gateway.ledger import call_books, key_books, signin_books
from gateway.ledger.alert_records import Alerts
from gateway.ledger.observations import Observations
from gateway.ledger.records import NodeView
from gateway.ledger.sql.books.accounts import AccountBook
from gateway.ledger.sql.books.alerts import AlertBook
from gateway.ledger.sql.books.budgets import BudgetBook
from gateway.ledger.sql.books.calls import CallBook
from gateway.ledger.sql.books.codes import CodeBook
from gateway.ledger.sql.books.database import Database
from gateway.ledger.sql.books.entries import EntryBook
from gateway.ledger.sql.books.events import EventBook
from gateway.ledger.sql.books.keys import KeyBook
from gateway.ledger.sql.books.observations import ObservationBook
from gateway.ledger.sql.books.replays import ReplayBook
from gateway.ledger.sql.books.signins import SignInBook
from gateway.ledger.sql.books.tokens import TokenBook
from gateway.ledger.sql.books.usage import UsageBook
from gateway.ledger.sql.connection import Connection

_LAST_CHECKPOINT: Final = "SELECT max(created_ms) FROM checkpoints"


class SqlBooks(Database):
    """The parts of `gateway.ledger.books.Books` that both databases share."""

    def __init__(self, connection: Connection, clock: Callable[[], int]) -> None:
        super().__init__(connection, clock)
        entries = EntryBook(self)
        self.accounts: contract.Accounts = AccountBook(self)
        self.keys: key_books.Keys = KeyBook(self)
        self.budgets: key_books.Budgets = BudgetBook(self)
        self.codes: contract.Codes = CodeBook(self, entries)
        self.entries: contract.Entries = entries
        self.calls: call_books.Calls = CallBook(self)
        self.usage: call_books.UsageSums = UsageBook(self)
        self.signins: signin_books.SignIns = SignInBook(self)
        self.tokens: signin_books.Tokens = TokenBook(self)
        self.events: contract.Events = EventBook(self)
        self.observations: Observations = ObservationBook(self)
        self.alerts: Alerts = AlertBook(self)
        self.replays: contract.Replays = ReplayBook(self)

    def list_nodes(self) -> list[NodeView]:
        return []

    def find_last_checkpoint_ms(self) -> int | None:
        with self.reading() as connection:
            (at_ms,) = connection.execute(_LAST_CHECKPOINT).fetchone()
            return None if at_ms is None else int(at_ms)
