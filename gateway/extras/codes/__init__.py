"""Top-up codes: each is worth an amount, once, to whoever redeems it.

Without it no code can be made or redeemed, and an audit does not compare those that were with their
entries, which stay. Credit is given by the operator then, or bought by card.

    records    codes and their batches, and how operators see them
    book       make codes, and redeem one that somebody typed; the table `codes`, see `tables.sql`;
               `proof.sql` has the checks of an audit
    verbs      `code make`, `code list`, `code void`
    console    where the console is: operators make, list and void codes, holders redeem them; where the
               extra `finder` is, a search for codes by their parts that are not secret
    static     the console's page of codes, and the form on its page Billing
"""

from __future__ import annotations

from gateway.extension import Extra, LedgerTables


def _add_to_console() -> object:
    from gateway.extras.codes.console import ADDITION

    return ADDITION


def _add_to_finder() -> object:
    from gateway.extras.codes.console import make_finder

    return make_finder()


EXTRA = Extra(
    needs=("signins",),
    first_words={"code": "Manage top-up codes; each can be redeemed once."},
    ledger=LedgerTables(names=("codes",)),
    adds_to={"console": _add_to_console, "finder": _add_to_finder},
)
