"""The records by which an extra joins the core: all that the core knows of extras.

An extra is a folder `extras/NAME` with all of one addition: settings, paths, documents. Its `__init__`
has an `Extra` named `EXTRA`, whose functions import the rest of the folder when they are called. Extras
are found by looking into `extras`, so there is no list to keep, and a folder may be deleted. The core
imports none of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gateway.dialects.wire.records import DIALECTS, KINDS, Dialect, Kind

if TYPE_CHECKING:
    from aiohttp.web import Application

    from gateway.api.routes import Endpoint
    from gateway.api.state import Gateway
    from gateway.config.reader import Place
    from gateway.config.records import Config, Model
    from gateway.config.secrets import Mistake, ReadTable
    from gateway.dialects.formats import Formats
    from gateway.ledger.opening import Databases
    from gateway.ledger.sql.books import Books
    from gateway.ledger.sql.database import Database

FOLDER: Final = Path(__file__).with_name("extras")
INDEX: Final = Path(__file__).with_suffix(".toml")
"""Says which extra a table of gateway.toml and the like need, for errors about one that was taken away."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of gateway.toml that an extra reads."""

    find: Callable[[], type]
    """Returns its record, with settings as in `config.records`."""
    fixed: str = ""
    """Names what takes effect at a restart, such as `metrics.listen`; "" for what a reload changes."""
    finish: Callable[[ReadTable], Mapping[str, object]] = lambda table: table.values
    """Checks its values together and looks secrets up; returns the record's. Raises ConfigError."""
    of: str = ""
    """The table of gateway.toml that has its settings, if another extra has one of that name."""
    find_literals: Callable[[Mapping[str, object]], Iterable[str]] = lambda _: ()
    """Finds the keys whose secrets are written out in the file, in a table that was checked."""


@dataclass(frozen=True, slots=True)
class RequestNotes:
    """Notes of an extra on a request."""

    members: dict[str, object]
    """For JSON."""
    lines: Sequence[tuple[str, str]]
    """For people, each with its title."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTables:
    """Tables that an extra adds to ledgers.

    `extras/NAME/tables.sql` makes them in SQLite, `tables_from_N.sql` takes those of version N to the next, and
    `proof.sql` has their checks for an audit, if they have any: see `ledger.sql.audit.Check`.
    """

    names: Sequence[str]
    stay: Sequence[str] = ()
    """Tables of these that concern this database alone: their rows do not move to another one."""
    version: int = 1
    free_name: Callable[[Database, str], object] | None = None
    """Raises Conflict if an account cannot have a name, because of what the tables have. In a change."""
    end_access: Callable[[Database, int], object] | None = None
    """Ends what lets people act for an account, as its role changes. In a change."""
    describe_accounts: (
        Callable[[Database, Sequence[int]], Mapping[int, Mapping[str, object]]] | None
    ) = None
    """Returns what lists of accounts tell of each of these ids besides, by its name in JSON."""
    describe_call: Callable[[Database, str], RequestNotes] | None = None
    """Returns what operators are told of a request of this id besides its receipt."""
    find_refused: Callable[[Database, str, int | None], RequestNotes] | None = None
    """Returns what is known of a request that has no receipt, of anybody or of this account. Raises NotFound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An extra at work in a process that serves."""

    endpoints: Sequence[Endpoint] = ()
    """Paths of `/v1`. One with the method and the path of another takes its place."""
    add_routes: Callable[[Application], object] = lambda _: None
    """Adds paths elsewhere. All extras have been started by then, so it may look for what others offer."""
    offers: Sequence[object] = ()
    """Objects that other extras find by their type with `Gateway.find_offers`."""
    adjust: Callable[[Config], Config] = lambda config: config
    """Returns what is served of a configuration that was read, such as one with a provider off. Called in a
    thread; `Gateway.reconfigure` calls it anew."""
    reconfigure: Callable[[], object] = lambda: None
    """Called when `Gateway.config` has changed."""
    run: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    """Entered before callers are accepted, and left after the last of them: tasks, sockets."""
    close: Callable[[], object] = lambda: None
    """Called at the very end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStartText:
    """An extra's part of the text of a first start, which is shown once."""

    lines: str = field(repr=False)
    """Stand below the key."""
    does: str
    """Says what it does, as in "the link signs in as 'operator'"."""
    lets: str
    """Says what whoever finds it can do, as in "its link lets one sign in"."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A model that is sold below its cost at a provider, and the warning of it."""

    model: str
    provider: str
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice on gateway.toml beside the rules: what is meant, and what cannot be. By default there is none."""

    guess: Callable[[str, Iterable[str]], str | None] = lambda *_: None
    """Returns the known name that another one may be meant for."""
    explain: Callable[[ValueError, str], str | None] = lambda *_: None
    """Says what was meant by a text that is not UTF-8, or not TOML."""
    judge: Callable[[Callable[..., object], object, str], str] = lambda _read, _value, said: said
    """Given a reader, a value and the reader's error ("" if none), returns the error to report; "" accepts the value."""
    find_mistake: Callable[[str, bool], Mistake | None] = lambda *_: None
    """Returns why a text cannot be a secret. True says that it stands in gateway.toml itself."""
    judge_model: Callable[[Place, Mapping[str, object], Model, str], Sequence[str]] = lambda *_: ()
    """Returns doubts about the prices of a model, by its table and the currency. Raises ConfigError for what
    cannot be meant."""
    judge_dollars: Callable[[Mapping[str, Decimal]], str] = lambda _: ""
    """Returns what is wrong with prices that `judge_model` refuses; "" if nothing is."""
    list_warnings: Callable[[Config], Iterable[str]] = lambda _: ()
    """Returns what may not be meant in a valid configuration, beside the doubts about its models."""
    find_literals: Callable[[Mapping[str, object]], Iterable[str]] = lambda _: ()
    """Returns the settings whose secrets are written out in a file that was checked."""
    warn_of_literals: Callable[[Path, Sequence[str]], str | None] = lambda *_: None
    """Returns a warning if others may read the file with such settings."""
    note_names: Callable[[Sequence[str], Iterable[str]], Iterable[str]] = lambda *_: ()
    """Returns notes on the names of new accounts, given those of all: people may take them for others."""
    find_obstacle: Callable[[Path, int], str | None] = lambda *_: None
    """Returns what keeps this user from reading a file (`os.R_OK`), or also from writing it (`os.W_OK`), and what
    to do about it."""
    explain_error: Callable[[Path, int | None], str | None] = lambda *_: None
    """Says the same of a file, for the number of the system's error."""
    list_losses: Callable[[Config], Iterable[Loss]] = lambda _: ()
    """Returns those of these warnings that are about a price below its cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra. Its functions import what they need when they are called."""

    needs: Sequence[str] = ()
    """The extras that it imports."""
    adds: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """Functions by the name of another extra, which says what they return. They may import it, and are called
    only if it is in the installation."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Its tables in gateway.toml by name; `Config.find` returns the record of what was read. Behind a point
    stands a table in another one, such as `billing.stripe`, which has a record only if the file has it."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The first words of its verbs, and what they are for; "" for one that the core has. `extras/NAME/verbs.py`
    has the verbs."""
    key_places: Sequence[str] = ()
    """The beginnings of places where it looks for providers' keys, such as `command:`."""
    fetch_keys: Callable[[Config], Config] | None = None
    """Looks for such keys once, for a command."""
    dialects: Mapping[str, Dialect] = field(default_factory=dict)
    """The values of a provider's `dialect` that it adds."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The values of a model's `kind` that it adds."""
    find_formats: Callable[[], Formats] | None = None
    """Returns its dialects and services; None if it has none."""
    start: Callable[[Gateway], Started] | None = None
    """Starts it beside a gateway; None if it has nothing that serves."""
    tell_mismatch: Callable[[Config, str, int, Books | None], object] | None = None
    """Called when an audit fails, with its text and time. The books are None if a start ends by it."""
    ledger: LedgerTables | None = None
    """Its tables in ledgers. A ledger whose extra is missing keeps them."""
    databases: Callable[[], Databases] | None = None
    """Returns what opens ledgers at addresses, of which [storage] url names one."""
    schemas: Mapping[str, int] = field(default_factory=dict)
    """The versions of their schemas, by the name of the database."""
    advise: Callable[[], Advice] | None = None
    """Returns what it says of gateway.toml. Of one extra alone."""
    first_start: Callable[[Books, Config, str, tuple[str, int]], FirstStartText] | None = None
    """Opens the operator's account, by its name, on a gateway at this host and port."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """How callers go on with it, by names in `WAYS`."""


WAYS: Final = {
    "places": "The API is under /v1",
    "top_up": "Ask whoever runs this gateway to top it up.",
    "raise_cap": "Use another key, or ask whoever runs this gateway.",
    "make_key": "Ask whoever runs this gateway for another.",
}
"""How errors tell callers to go on. The `ways` of an extra stand in place of these: an offer of its own.
`public_url`, or "", stands in place of `{}`."""


@cache
def find_extras() -> Mapping[str, Extra]:
    """Return the extras of this installation by name."""
    names = sorted(one.parent.name for one in FOLDER.glob("*/__init__.py"))
    return {name: import_module(f"gateway.extras.{name}").EXTRA for name in names}


@cache
def find_tables() -> Mapping[str, Table]:
    """Return the tables of all extras in gateway.toml."""
    return {name: one for extra in find_extras().values() for name, one in extra.tables.items()}


@cache
def find_ledger_tables() -> Mapping[str, LedgerTables]:
    """Return the tables that extras add to ledgers, by extra."""
    return {name: one.ledger for name, one in find_extras().items() if one.ledger is not None}


def find_added(name: str) -> list[object]:
    """Return what other extras add to an extra."""
    extras = find_extras().values()
    return [extra.adds[name]() for extra in extras if name in extra.adds]


def tell_mismatch(config: Config, text: str, at_ms: int, books: Books | None) -> None:
    """Let extras tell that an audit failed."""
    for extra in find_extras().values():
        if extra.tell_mismatch is not None:
            extra.tell_mismatch(config, text, at_ms, books)


def tell_way(name: str, public_url: str | None = None) -> str:
    """Tell callers how to go on, by a name in `WAYS`."""
    found = (one.ways[name] for one in find_extras().values() if name in one.ways)
    return next(found, WAYS[name]).format(public_url or "")


@cache
def find_advice() -> Advice:
    """Return what an extra says of gateway.toml: nothing where there is none."""
    found = (one.advise for one in find_extras().values() if one.advise is not None)
    return next((advise() for advise in found), Advice())


def find_databases() -> Databases:
    """Return what opens ledgers at addresses. Raises ValueError that names the missing extra."""
    for extra in find_extras().values():
        if extra.databases is not None:
            return extra.databases()
    raise ValueError(find_missing("settings", "storage.url"))


@cache
def find_dialects() -> Mapping[str, Dialect]:
    """Return what a provider's `dialect` may be: the core's, then those of extras."""
    added = (one for extra in find_extras().values() for one in extra.dialects.items())
    return {**DIALECTS, **dict(added)}


@cache
def find_kinds() -> Mapping[str, Kind]:
    """Return what a model's `kind` may be: the core's, then those of extras."""
    added = (one for extra in find_extras().values() for one in extra.kinds.items())
    return {**KINDS, **dict(added)}


@cache
def find_formats() -> Formats:
    """Return all dialects and services: the core's, then those of extras."""
    from gateway.dialects.formats import FORMATS

    finders = (extra.find_formats for extra in find_extras().values())
    return reduce(or_, (find() for find in finders if find is not None), FORMATS)


def find_missing(
    kind: Literal["tables", "settings", "words", "key_places", "dialects", "kinds", "ledger"],
    name: str,
) -> str | None:
    """Say which extra a table, a setting, a verb and the like need; None if none is known for it."""
    extra = tomllib.loads(INDEX.read_text(encoding="utf-8"))[kind].get(name)
    return f'needs the extra "{extra}"; it is not in this installation' if extra else None
