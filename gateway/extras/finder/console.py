"""The route of the search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from gateway.admin.fields import describe
from gateway.extension import find_added
from gateway.extras.console.additions import Addition
from gateway.extras.console.routes import Answer, ConsoleRequest, route
from gateway.extras.finder.book import MOST, Finder, Found, SearchBook
from gateway.ledger.sql.books import Books

ADDITION: Final = Addition(scripts=(Path(__file__).with_name("static"),), parts={"shell": "finder"})


@route("GET", "/search", "any")
def search(books: Books, request: ConsoleRequest) -> Answer:
    """Show what a text means, by kind: to holders in their own account, to operators in all of them."""
    text = request.query.text("q")
    finders = {} if text is None else _list_finders(books, request)
    groups = [(kind, find(text or "")) for kind, find in finders.items()]
    return Answer(
        {
            "groups": [
                {"kind": kind, "found": [describe(one, "name", "note", "path") for one in found]}
                for kind, found in groups
                if found
            ]
        }
    )


def _list_finders(
    books: Books, request: ConsoleRequest
) -> Mapping[str, Callable[[str], Sequence[Found]]]:
    book, account, config = SearchBook(books), request.account, request.gateway.config
    own_id = None if account.operator else account.id
    served = request.gateway.routes.models
    models = [
        one
        for one in config.models
        if account.operator or (one in served and account.terms.allows(one))
    ]
    finders: dict[str, Callable[[str], Sequence[Found]]] = {
        "Keys": lambda text: book.find_keys(text, own_id),
        "Calls": lambda text: book.find_calls(text, own_id),
        "Models": lambda text: _choose(
            text, models, lambda one: f"/console/usage?{urlencode({'model': one})}"
        ),
    }
    if not account.operator:
        return finders
    added = [one for one in find_added("finder") if isinstance(one, Finder)]
    return {
        "Accounts": book.find_accounts,
        **finders,
        "Providers": lambda text: _choose(
            text, config.providers, lambda one: f"/console/activity?{urlencode({'provider': one})}"
        ),
        **{one.kind: partial(one.find, books) for one in added},
    }


def _choose(text: str, names: Iterable[str], find_path: Callable[[str], str]) -> list[Found]:
    part = text.casefold()
    chosen = [one for one in names if part in one.casefold()]
    chosen.sort(key=lambda one: (not one.casefold().startswith(part), one))
    return [Found(one, "", find_path(one)) for one in chosen[:MOST]]
