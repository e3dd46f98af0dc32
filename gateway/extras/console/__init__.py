"""The console: a JSON API under /console/api and the page that is its first user.

Without it accounts, keys and balances are managed by the command line alone, nobody signs in, and
holders see their balance only by `GET /v1/key`.

    table       the table [console] of gateway.toml
    dispatch    a request's checks in order: origin, caller, role, body; then its handler, and the reply;
                the list of all routes, for the extra `reference`
    callers     who sends a request: a session, a script, or a name that a proxy vouches for
    routes      the records of one request, the decorators of handlers, idempotency
    additions   what other extras add: routes, pages, parts of pages, credentials
    replays     replies that are kept, so that a repeated request does nothing again
    state       what all requests share: the books' thread, the door, lag, last audit
    bodies      read a request's body within limits of size and time; write a reply's
    fields      a request's fields and query
    errors      errors as JSON
    lists       lists in pages, and as CSV
    pages  static/    the page's files
    welcome     the operator's sign-in link at a first start

The handlers of the API, by subject. console-api.md has all routes.

    session     sign in, sign out, who is signed in; the people who sign in to an account
    overview    the overview of an account
    keys        the signed-in account's keys, and budgets that keys share; key_pages has the keys of an account
    calls       requests to models
    usage       usage by day, hour, model or key; the models
    settings    the signed-in person's password, one-time codes and sessions
    billing     the balance and its entries; operators: entries and statements of all
    accounts    operators: accounts
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.extension import Extra, FirstStartText, LedgerTables, Started, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.config.records import Config, ReadTable
    from gateway.ledger.sql.books import Books


def _find_settings() -> type:
    from gateway.extras.console.table import Console

    return Console


def _check_values(table: ReadTable) -> Mapping[str, object]:
    from gateway.extras.console.table import check_values

    return check_values(table)


def _start(gateway: Gateway) -> Started:
    from gateway.extras.console.dispatch import start

    return start(gateway)


def _first_start(books: Books, config: Config, name: str, at: tuple[str, int]) -> FirstStartText:
    from gateway.extras.console.welcome import show_link

    return show_link(books, config, name, at)


def _tell_routes() -> object:
    from gateway.extras.console.dispatch import tell_routes

    return tell_routes()


EXTRA = Extra(
    needs=(
        *("observations", "operations", "receipts", "refunding", "reports", "shared_budgets"),
        *("signins", "spreadsheets"),
    ),
    tables={"console": Table(_find_settings, check_values=_check_values)},
    start=_start,
    first_start=_first_start,
    adds_to={"reference": _tell_routes},
    ledger=LedgerTables(names=("replays",), unmoved=("replays",)),
    next_steps={
        "places": "The API is under /v1, the console under /console/",
        "top_up": "Top it up in the console under Billing ({}/console/billing), or ask whoever runs this gateway.",
        "raise_cap": "Raise its cap in the console under Keys ({}/console/keys), or use another key.",
        "make_key": "Make another in the console under Keys.",
    },
)
