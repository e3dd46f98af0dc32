"""Tokens by which scripts use the console's API: a shop that adds accounts, a monitor that looks.

Without it only people reach that API, by signing in; tokens that were made stay in the ledger, and are refused
like any unknown sender. Its verbs work without the console, where tokens open nothing.

    records    tokens, their roles, and how operators see them
    book       make a token, and find one by its secret; the table `tokens`, see `tables.sql`
    verbs      `token add`, `token list`, `token revoke`
    console    where the console is: the routes for tokens, and who sends a request with one
    static     the console's page of tokens
"""

from __future__ import annotations

from gateway.extension import Extra, LedgerTables


def _add_to_console() -> object:
    from gateway.extras.script_tokens.console import ADDITION

    return ADDITION


EXTRA = Extra(
    first_words={"token": "Manage tokens, by which scripts use the console's API."},
    ledger=LedgerTables(names=("tokens",)),
    adds_to={"console": _add_to_console},
)
