"""An audit that finds a mismatch raises an alert."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.admin import observations, views
from gateway.ledger.alert_records import Hook
from gateway.ledger.sqlite.books import SqliteBooks
from tests.support.settings import load

CONFIG = '[alerts]\ncommand = ["page"]\n'


def test_a_mismatch_is_told_and_success_is_not(tmp_path: Path) -> None:
    config = load(tmp_path, CONFIG)
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        books.accounts.create("a", credit_nano=5, operator=False)
        assert observations.run_audit(books, config).ok
        assert books.alerts.read_latest(9) == []
        with closing(sqlite3.connect(tmp_path / "gateway.db")) as connection, connection:
            connection.execute("UPDATE accounts SET balance_nano = 6")
        assert not observations.run_audit(books, config).ok
        (told,) = books.alerts.read_latest(9)
    assert (told.kind, told.channel) == ("audit_mismatch", "command")
    assert views.ALERT.describe(told)["text"] == told.text


def test_an_account_has_a_threshold_of_its_own_or_that_of_the_configuration(tmp_path: Path) -> None:
    billing = load(tmp_path, "[billing]\nlow_balance = 2\n").billing
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        account_id = books.accounts.create("a", credit_nano=5, operator=False).id
        assert observations.find_low_balance_nano(books, account_id, billing) == 2 * 10**9
        books.alerts.set_hook(account_id, Hook(None, None, 0))
        assert observations.find_low_balance_nano(books, account_id, billing) == 0
