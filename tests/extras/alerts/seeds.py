"""Alerts that cannot be delivered, for the console's pages: long reasons and addresses have to fit."""

from __future__ import annotations

from typing import Final

from gateway.base.money import NANO
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Hook
from gateway.ledger.sql.books import Books
from tests.support.served import HOLDER

TOML: Final = '\n[alerts]\ncommand = ["false"]\nbackup_days = 1\n'


def seed(books: Books) -> None:
    account_id = books.accounts.find_id(HOLDER)
    url = f"https://hooks.invalid/{'a-long-path/' * 10}"
    AlertBook(books).set_hook(account_id, Hook(url, "whsec_of-the-past", 5 * NANO))
    AlertBook(books).raise_test(account_id, ())
