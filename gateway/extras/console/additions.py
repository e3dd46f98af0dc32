"""Routes, pages, parts of pages and credentials that other extras add to the console by their `Extra.adds_to`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.extension import find_added

if TYPE_CHECKING:
    from gateway.api.front import Call
    from gateway.api.state import Gateway
    from gateway.config.records import Billing, Config
    from gateway.extras.console.lists import Json
    from gateway.extras.console.routes import ConsoleRequest, Reply, Route
    from gateway.extras.console.state import ConsoleState
    from gateway.ledger.sql.books import Books


ScriptRole = Literal["operator", "accounts", "read"]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that sends requests."""

    id: str
    actor: str
    """Its name in events, in a form that no account's name can have."""
    role: ScriptRole


@dataclass(frozen=True, slots=True)
class Credential:
    """A kind of bearer credential by which scripts identify themselves."""

    prefix: str
    """The text that every such credential begins with, such as `gwt_`."""
    find: Callable[[str, Call, ConsoleState], Awaitable[Script]]
    """Finds the script that a credential belongs to. Raises ConsoleError."""


class Renewer:
    """Answers the requests by which pages refresh themselves. An extra may offer another `Renewer`."""

    async def answer(self, request: ConsoleRequest, route: Route) -> Reply:
        return await route.handler(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One extra's additions. Its routes are registered by the decorators of `routes` when it is imported."""

    scripts: Sequence[Path] = ()
    """The folders of its scripts, which are served beside the console's."""
    downloads: Mapping[str, bytes] = field(default_factory=dict)
    """Files to download, by name; the page Health links `grafana.json`."""
    pages: Sequence[str] = ()
    """Pages for operators: the function `codes` of the script `codes.js` shows `/console/codes`, "Codes" in the menu."""
    credit: Mapping[str, str] = field(default_factory=dict)
    """Scripts whose `creditForm` adds to the balance on the page Billing, each with a phrase for notices:
    "redeem a code under Billing"."""
    own_pages: Mapping[str, str] = field(default_factory=dict)
    """Pages for everybody by name, with their labels in the menu. The function `tryit` of the script `try.js`
    shows the page `try`, "Try it"."""
    links: Sequence[str] = ()
    """Pages for operators that are not in the menu: other pages lead there."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Scripts by the pages that they add to. The function for `costs` is `costsPart`, which gets the page's
    context and, from some pages, the data that they show. For `models` and `providers` it returns a function
    from a row's name to more content of the row, and for `newkey` a function that gets the new key. `shell`
    is around all pages: see `app.js`."""
    receipts: Mapping[str, str] = field(default_factory=dict)
    """Routes to receipts, by the kind of entry; `{}` stands for the last word of the entry's note."""
    describe_credit: Callable[[Gateway], Json] = lambda _: {}
    """Returns further members of the reply to `GET /billing`: the ways to add to the balance."""
    describe_costs: Callable[[Books, str | None, int, int], Json] = lambda *_: {}
    """Returns further members of the reply to `GET /costs`. Takes an account's name, or None for all, and the
    start and the exclusive end of the period in ms."""
    find_low_balance_nano: Callable[[Books, int], int | None] = lambda *_: None
    """Returns the threshold below which an account is told that its balance is low; None if it has none of its own."""
    dress: Callable[[Config, str], str] = lambda _, page: page
    """Returns `index.html` changed as the configuration asks for, such as with another name."""
    credential: Credential | None = None


@cache
def find_additions() -> tuple[Addition, ...]:
    """Return the additions of all extras. The first call imports them, which registers their routes."""
    return tuple(one for one in find_added("console") if isinstance(one, Addition))


@cache
def find_credentials() -> tuple[Credential, ...]:
    """Return the bearer credentials that extras know."""
    return tuple(one.credential for one in find_additions() if one.credential is not None)


def find_low_balance_nano(books: Books, account_id: int, billing: Billing) -> int | None:
    """Return the threshold of an account: its own, or else the configuration's."""
    own = (one.find_low_balance_nano(books, account_id) for one in find_additions())
    return next((nano for nano in own if nano is not None), billing.low_balance_nano)
