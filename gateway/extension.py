"""The records by which an extra joins the core: all that the core knows of extras.

An extra is a folder `extras/NAME` with all of one addition: settings, paths, documents. Its `__init__`
has an `Extra` named `EXTRA`, whose functions import the rest of the folder when they are called. Extras
are found by looking into `extras`, so there is no list to keep, and a folder may be deleted. The core
imports none of them.

Who calls a hook, and when. "Loop" is the event loop of the process that serves. Commands call the same hooks
on their main thread. If several extras have a hook, they are called in the order of their names.

    gateway.toml is read   Table.find_record, check_values,   config.load: the main thread at a start,
                           Advice                             another thread at a reload
                           Extra.databases                    config.load, ledger.opening
    start                  Extra.start                        api.state.make_gateway: loop; the ledger is open
                           Started.endpoints, add_routes      server.serve: loop; all extras are started
                           Started.run                        server.serve: loop; entered before the listener
                                                              starts, left after the drain
                           Extra.first_start                  server.first_start: loop; `run` is entered
    reload, switch         Started.adjust                     Gateway.reconfigure: a thread
                           Started.reconfigure                Gateway.swap: loop; the new records are in force
    end                    Started.close                      Gateway.close: loop; the ledger is still open
    an audit fails         Extra.tell_mismatch                server.serve: main thread; no loop runs any more
                                                              admin.audits: the thread of the audit
    accounts               the callables of LedgerTables      ledger.sql: the books' thread
    a ledger moves         LedgerTables.names, unmoved        `export` and `import`
    a command              Extra.first_words, fetch_keys      cli.verbs, cli.process
    an error's text        Extra.next_steps                   tell_next_step: loop
    another extra asks     Extra.adds_to, Started.offers      find_added, Gateway.find_offers: any thread
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
    from gateway.config.records import Config, Model, ReadTable
    from gateway.config.secrets import Mistake
    from gateway.dialects.formats import Formats
    from gateway.ledger.opening import Databases
    from gateway.ledger.sql.books import Books
    from gateway.ledger.sql.database import Database

FOLDER: Final = Path(__file__).with_name("extras")
INDEX: Final = Path(__file__).with_suffix(".toml")
"""Names the extra that a table, a verb and the like need, for errors where that extra is not installed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of gateway.toml that an extra reads."""

    find_record: Callable[[], type]
    """Returns the class of its record, whose fields are settings as in `config.records`."""
    at_restart: str = ""
    """The settings that take effect only at a restart, such as `metrics.listen`; "" if there are none."""
    check_values: Callable[[ReadTable], Mapping[str, object]] = lambda table: table.values
    """Checks the table's values together and looks secrets up. Returns the values of the record. Raises
    ConfigError."""
    in_table: str = ""
    """The table of gateway.toml in which its settings stand, if that table is another extra's."""
    find_literals: Callable[[Mapping[str, object]], Iterable[str]] = lambda _: ()
    """Finds the keys whose secrets are written out in the file, in a table that was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTables:
    """Tables that an extra adds to ledgers.

    `extras/NAME/tables.sql` makes them in SQLite, `tables_from_N.sql` upgrades them from version N, and
    `proof.sql` has their checks for an audit, if they have any: see `ledger.sql.audit.Check`.
    """

    names: Sequence[str]
    unmoved: Sequence[str] = ()
    """Those of `names` that concern this database alone: their rows do not move to another one."""
    version: int = 1
    check_name: Callable[[Database, str], object] = lambda *_: None
    """Raises Conflict if rows of the tables use the name of a new account. Called in its transaction."""
    end_access: Callable[[Database, int], object] = lambda *_: None
    """Ends the sessions and the like by which people act for an account whose role changes. Called in the
    transaction of that change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An extra at work in a process that serves."""

    endpoints: Sequence[Endpoint] = ()
    """Endpoints under `/v1`. An endpoint replaces the core's endpoint of the same method and path."""
    add_routes: Callable[[Application], object] = lambda _: None
    """Adds paths outside `/v1`. All extras are started by then, so it may call `Gateway.find_offers`."""
    offers: Sequence[object] = ()
    """Objects that other extras find by their type with `Gateway.find_offers`."""
    adjust: Callable[[Config], Config] = lambda config: config
    """Returns the configuration to serve, made from the one that was read: for example with a provider off.
    Called in a thread, by `Gateway.reconfigure`: at a start only if an extra's `run` calls that."""
    reconfigure: Callable[[], object] = lambda: None
    """Called when `Gateway.config` has changed."""
    run: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    """For tasks and sockets: entered before callers are accepted, and left after the drain."""
    close: Callable[[], object] = lambda: None
    """Called after the last request, before the ledger is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStartText:
    """An extra's part of the text of a first start, which is shown once."""

    lines: str = field(repr=False)
    """Lines that are shown below the key."""
    does: str
    """A clause on the use of these lines, such as "the link signs in as 'operator'"."""
    lets: str
    """A warning of what a finder can do with them, such as "its link lets one sign in"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice on gateway.toml beside its rules: mistakes, and values that are valid but hardly meant.

    By default there is none.
    """

    guess: Callable[[str, Iterable[str]], str | None] = lambda *_: None
    """Returns the known name that an unknown name probably stands for; None if no name is like it."""
    explain: Callable[[ValueError, str], str | None] = lambda *_: None
    """Explains a file that is not UTF-8 or not TOML, by the error and the text; None if it has no idea."""
    judge: Callable[[str, object, str], str] = lambda _subject, _value, said: said
    """Given a value, its subject (see `config.reader.Setting`) and its reader's error ("" if none), returns the
    error to report; "" accepts the value."""
    find_mistake: Callable[[str, bool], Mistake | None] = lambda *_: None
    """Returns why a text cannot be a secret, or None. The flag says that it stands in gateway.toml itself."""
    judge_model: Callable[[Place, Mapping[str, object], Model, str], Sequence[str]] = lambda *_: ()
    """Returns doubts about the prices of a model, by its table and the currency. Raises ConfigError for
    prices that cannot be meant."""
    judge_dollars: Callable[[Mapping[str, Decimal]], str] = lambda _: ""
    """Returns why `judge_model` would refuse these prices in dollars; "" if it would not."""
    list_warnings: Callable[[Config], Iterable[str]] = lambda _: ()
    """Returns warnings about a valid configuration, beside `judge_model`'s doubts."""
    find_literals: Callable[[Mapping[str, object]], Iterable[str]] = lambda _: ()
    """Returns the settings whose secrets are written out in a file that was checked."""
    warn_of_literals: Callable[[Path, Sequence[str]], str | None] = lambda *_: None
    """Returns a warning if the file has such settings and other users may read it."""
    note_names: Callable[[Sequence[str], Iterable[str]], Iterable[str]] = lambda *_: ()
    """Returns notes on names of new accounts that people may confuse with others, given those of all."""
    find_obstacle: Callable[[Path, int], str | None] = lambda *_: None
    """Returns what keeps this user from reading a file (`os.R_OK`), or also from writing it (`os.W_OK`), and what
    to do about it."""
    explain_error: Callable[[Path, int | None], str | None] = lambda *_: None
    """Says the same of a file, for the number of the system's error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra. Its functions import what they need when they are called."""

    needs: Sequence[str] = ()
    """The extras that it imports."""
    adds_to: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """Functions by the name of the extra that they add to, which documents the objects they return. They may
    import that extra, as only it calls them."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Its tables in gateway.toml by name; `Config.find` returns their records. A name with a point, such as
    `billing.stripe`, is of a table within another one, which has a record only if the file has the table."""
    first_words: Mapping[str, str] = field(default_factory=dict)
    """The first words of its verbs, each with its line in the help; "" for a word that the core has, too.
    `extras/NAME/verbs.py` has the verbs."""
    key_places: Sequence[str] = ()
    """Prefixes in a provider's `api_key` behind which it finds the key, such as `command:`."""
    fetch_keys: Callable[[Config], Config] = lambda config: config
    """Returns the configuration with these keys fetched once, for a command."""
    dialects: Mapping[str, Dialect] = field(default_factory=dict)
    """The values of a provider's `dialect` that it adds."""
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    """The values of a model's `kind` that it adds."""
    find_formats: Callable[[], Formats] | None = None
    """Returns its dialects and services; None if it has none."""
    start: Callable[[Gateway], Started] | None = None
    """Starts it beside a gateway; None if it has nothing that serves."""
    tell_mismatch: Callable[[Config, str, int, Books | None], object] = lambda *_: None
    """Called when an audit fails, with its text and time. The books are None if a start ends by it."""
    ledger: LedgerTables | None = None
    """Its tables in ledgers. A ledger whose extra is missing keeps them."""
    databases: Callable[[], Databases] | None = None
    """Returns the `Databases` that open ledgers at addresses such as [storage] url."""
    make_advice: Callable[[], Advice] | None = None
    """Returns its advice on gateway.toml. Only one extra may have this."""
    first_start: Callable[[Books, Config, str, tuple[str, int]], FirstStartText] | None = None
    """Makes the text of a first start, given the operator account's name and the gateway's host and port.
    Called in the transaction that makes the accounts."""
    next_steps: Mapping[str, str] = field(default_factory=dict)
    """Texts that replace those of `NEXT_STEPS`, by the same names."""


NEXT_STEPS: Final = {
    "places": "The API is under /v1",
    "top_up": "Ask whoever runs this gateway to top it up.",
    "raise_cap": "Use another key, or ask whoever runs this gateway.",
    "make_key": "Ask whoever runs this gateway for another.",
}
"""The advice in errors on what callers can do next. An extra's `next_steps` replace these by what it offers; `{}`
in them stands for `public_url`, or ""."""


@cache
def find_extras() -> Mapping[str, Extra]:
    """Return the extras of this installation by name."""
    names = sorted(one.parent.name for one in FOLDER.glob("*/__init__.py"))
    return {name: import_module(f"gateway.extras.{name}").EXTRA for name in names}


def find_unmet() -> str | None:
    """Say which extra needs one that this installation lacks; None if each has what it needs."""
    extras = find_extras()
    for name, one in extras.items():
        if lacking := [need for need in one.needs if need not in extras]:
            return (
                f'the extra "{name}" needs the extra "{lacking[0]}", which is not in this installation: put'
                f" gateway/extras/{lacking[0]} back, or delete gateway/extras/{name}, too"
            )
    return None


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
    return [extra.adds_to[name]() for extra in extras if name in extra.adds_to]


def tell_mismatch(config: Config, text: str, at_ms: int, books: Books | None) -> None:
    """Let extras tell that an audit failed."""
    for extra in find_extras().values():
        extra.tell_mismatch(config, text, at_ms, books)


def tell_next_step(name: str, public_url: str | None = None) -> str:
    """Tell callers how to go on, by a name in `NEXT_STEPS`."""
    found = (one.next_steps[name] for one in find_extras().values() if name in one.next_steps)
    return next(found, NEXT_STEPS[name]).format(public_url or "")


@cache
def find_advice() -> Advice:
    """Return the advice of the extra that has some, or else advice that never says anything."""
    found = (one.make_advice for one in find_extras().values() if one.make_advice is not None)
    return next((make() for make in found), Advice())


def find_databases() -> Databases:
    """Return the `Databases` of an extra. Raises ValueError that names the extra if it is missing."""
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
