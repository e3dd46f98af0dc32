"""Rows of alerts, for the ledger's tests."""

from __future__ import annotations

from itertools import count

import pytest

from gateway.extras.alerts import book
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Hook
from gateway.ledger.sql.books import Books


def add_rows(books: Books) -> None:
    """Set the webhook of an account of its own, queue an alert to it and one to the operator."""
    account_id, alerts = books.accounts.create("told").id, AlertBook(books)
    alerts.set_hook(account_id, Hook("https://hooks.example.com/", "whsec_a", 7))
    alerts.raise_test(account_id, ())
    alerts.follow("old_backup", {"backup": "There is none."}, {}, ["webhook"])


def number_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let alerts have the ids `alert_1`, `alert_2` and so on."""
    numbers = count(1)
    monkeypatch.setattr(book, "make_alert_id", lambda: f"alert_{next(numbers)}")
