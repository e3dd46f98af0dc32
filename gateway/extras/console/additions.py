"""Routes, pages, parts of pages and credentials that other extras add to the console by their `Extra.adds`."""

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
    """Its name in events; no account's name can be like that."""
    role: ScriptRole


@dataclass(frozen=True, slots=True)
class Credential:
    """Bearer credentials by which scripts are known."""

    prefix: str
    """Their beginning."""
    find: Callable[[str, Call, ConsoleState], Awaitable[Script]]
    """Finds whose it is. Raises ConsoleError."""


class Renewer:
    """Answers the requests by which pages renew what they show. An extra may offer another one."""

    async def answer(self, request: ConsoleRequest, route: Route) -> Reply:
        return await route.handler(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The share of one extra. Its routes are made by the decorators of `routes`, as it is imported."""

    scripts: Sequence[Path] = ()
    """The folders of its scripts, which are served beside the console's."""
    downloads: Mapping[str, bytes] = field(default_factory=dict)
    """Files that people keep, by name; the page Health links `grafana.json`."""
    pages: Sequence[str] = ()
    """Pages for operators: the function `codes` of the script `codes.js` shows `/console/codes`, "Codes" in the menu."""
    credit: Mapping[str, str] = field(default_factory=dict)
    """Scripts whose `creditForm` adds to the balance on the page Billing, and what one can do there."""
    own_pages: Mapping[str, str] = field(default_factory=dict)
    """Pages for everybody by name, and their words in the menu: for `try`, "Try it", it is the function `tryit` of
    the script `try.js`."""
    links: Sequence[str] = ()
    """Such pages for operators that are not in the menu: others lead there."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Scripts by the pages that they add to: for `costs` it is the script's function `costsPart`, which gets the
    page's context and, of some pages, what they show. For `models` and `providers` it returns a function, which
    makes more of a row by the row's name, and for `newkey` one that gets the new key. `shell` is around all pages:
    see `app.js`."""
    receipts: Mapping[str, str] = field(default_factory=dict)
    """Routes that lead to the receipts of kinds of entries; the last word of an entry's note takes the place of `{}`."""
    describe_credit: Callable[[Gateway], Json] = lambda _: {}
    """Returns more members of the reply of `GET /billing`: how one adds to the balance."""
    describe_costs: Callable[[Books, str | None, int, int], Json] = lambda *_: {}
    """Returns more members of the reply of `GET /costs`: of an account, or of all; from a time, and until one."""
    find_low_balance_nano: Callable[[Books, int], int | None] = lambda *_: None
    """Returns the threshold below which an account is told that its balance is low; None if it has none of its own."""
    dress: Callable[[Config, str], str] = lambda _, page: page
    """Returns the page `index.html` as it is by the configuration."""
    credential: Credential | None = None


@cache
def find_additions() -> tuple[Addition, ...]:
    """Return what extras add, and make their routes."""
    return tuple(one for one in find_added("console") if isinstance(one, Addition))


@cache
def find_credentials() -> tuple[Credential, ...]:
    """Return the bearer credentials that extras know."""
    return tuple(one.credential for one in find_additions() if one.credential is not None)


def find_low_balance_nano(books: Books, account_id: int, billing: Billing) -> int | None:
    """Return the threshold of an account: its own, or else the configuration's."""
    own = (one.find_low_balance_nano(books, account_id) for one in find_additions())
    return next((nano for nano in own if nano is not None), billing.low_balance_nano)
