"""Read gateway.toml into frozen records, checked as a whole. `settings` lists its keys."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.base.process import PROGRAM
from gateway.config.authorities import read_authorities
from gateway.config.models import find_lack, read_models
from gateway.config.providers import read_providers
from gateway.config.reader import (
    ConfigError,
    Place,
    Problems,
    Setting,
    parse_table,
    parse_toml,
    quote_key,
    read_file,
    read_table,
    show,
    suggest,
)
from gateway.config.records import (
    Billing,
    Config,
    CoreTables,
    ReadTable,
    Server,
    Storage,
    find_settings,
    make_record,
)
from gateway.config.scalars import untyped
from gateway.config.secrets import resolve, resolve_secret
from gateway.config.settings import SETTINGS
from gateway.extension import find_advice, find_databases, find_missing, find_tables
from gateway.ledger.key_records import Limits


def load_config(path: Path, environ: Mapping[str, str], *, read_keys: bool = True) -> Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is resolved, and every provider with a key is off. This
    is for operators' verbs, which may run without the server's variables and credentials.

    Raises:
        ConfigError: has all errors of the file, in its order.
    """
    data = read_file(path)
    reading = _Reading(path, parse_toml(path, data), environ, read_keys=read_keys)
    return replace(reading.run(), digest=hashlib.sha256(data).digest())


def load_defaults(path: Path, environ: Mapping[str, str]) -> Config:
    """Return the defaults, as of an empty file. Nothing is read."""
    return _Reading(path, {}, environ, read_keys=False).run()


def load_table(path: Path, environ: Mapping[str, str], name: str) -> Config:
    """Read one fixed table, such as `storage`, and leave the rest at its defaults: it may be broken.

    Raises:
        ConfigError: the file cannot be read, or the table is wrong.
    """
    return _Reading(path, {name: parse_table(path, name)}, environ, read_keys=False).run()


LEAST_MONTHS: Final = 2
"""The least `retention_months` but 0: budgets and sums need the requests of two months."""


class _Reading:
    """A reading of a file. Its steps leave out what has an error; at the end `run` raises all errors."""

    def __init__(
        self, path: Path, raw: Mapping[str, Any], environ: Mapping[str, str], *, read_keys: bool
    ) -> None:
        self.path, self.file, self.folder = path, str(path), path.absolute().parent
        self.raw, self.read_keys = raw, read_keys
        self.find_secret = partial(resolve_secret, folder=self.folder, environ=environ)
        self.look_up = self.find_secret if read_keys else None
        self.environ = environ if read_keys else None  # for what only those who connect read
        self.sections = _list_sections()
        self.values: dict[str, dict[str, Any]] = {}
        """The values of the fixed tables, with their defaults."""
        self.problems = Problems(raw)

    def run(self) -> Config:
        self.check_names()
        # A misnamed table may be meant to hold the providers, without which each model looks wrong.
        named, routed = ({} if self.problems else self.raw.get(one, {}) for one in _COLLECTIONS)
        self.read_tables()
        core = self.make_core()
        trusted = core.server.authorities if core.server else ""
        trust = partial(read_authorities, environ=self.environ, trusted=trusted)
        providers = read_providers(self.file, named, self.look_up, trust, self.problems)
        currency = core.billing.currency if core.billing else ""
        models = read_models(
            self.file, routed, providers, self.problems, names=named, currency=currency
        )
        extras = self.make_extras(core)
        self.problems.raise_all()
        assert core.server is not None  # otherwise there was a problem
        assert core.storage is not None
        assert core.billing is not None
        share = self.values["limits"]["account_in_flight"]
        share = max(core.server.max_in_flight // 2, 1) if share is None else share
        return Config(
            path=self.path,
            server=core.server,
            storage=core.storage,
            billing=core.billing,
            account_limits=Limits(0, 0, share),
            limits=make_record(Limits, self.values["limits"]),
            providers=MappingProxyType(providers),
            models=MappingProxyType(models),
            lacking={
                name: lack for name, one in routed.items() if (lack := find_lack(one, "kind"))
            },
            extras=MappingProxyType(extras),
            doubts=(*self.tell_empty(), *self.problems.doubts),
            literals=tuple(find_advice().find_literals(self.raw)),
        )

    def check_names(self) -> None:
        """Refuse names that the file cannot have at its top, and values that are no tables."""
        known = [*(one for one in self.sections if "." not in one), *_COLLECTIONS]
        for name, value in self.raw.items():
            with self.problems.collect(name):
                if name not in known:
                    kind = "table" if isinstance(value, dict) else "key"
                    shown = f"[{quote_key(name)}]" if kind == "table" else quote_key(name)
                    why = find_missing("tables", name)
                    why = f" {why}" if why else f": unknown {kind}; {suggest(name, known)}"
                    raise ConfigError(f"{self.file}: {shown}{why}")
                if not isinstance(value, dict):
                    raise ConfigError(f"{self.file}: {name}: must be a table, not {show(value)}")

    def read_tables(self) -> None:
        """Read the values of the fixed tables, and of those within them that the file has."""
        for name in sorted(self.sections):  # a table comes before those within it
            outer, _, key = name.rpartition(".")
            table = self.values.get(outer, {}).get(key) if outer else self.raw.get(name, {})
            if isinstance(table, dict) or (outer and table is not None):
                with self.problems.collect(outer or name):
                    place, settings = Place(self.file, f"[{name}]"), self.sections[name]
                    if not outer:
                        _refuse_lacking(place, name, table.keys() - settings.keys())
                    self.values[name] = read_table(place, table, settings)

    def make_core(self) -> CoreTables:
        """Make the records of the core's tables."""
        values, server, storage = self.values, None, None
        billing = make_record(Billing, values["billing"]) if "billing" in values else None
        if "server" in values:
            place, authorities = Place(self.file, "[server]"), ""
            with self.problems.collect("server"):
                authorities = read_authorities(place, values["server"]["ca_file"], self.environ)
            server = make_record(Server, {**values["server"], "authorities": authorities})
        if "storage" in values:
            with self.problems.collect("storage"):
                storage = self.make_storage(Place(self.file, "[storage]"), values["storage"])
        return CoreTables(server, storage, billing)

    def make_storage(self, place: Place, values: Mapping[str, Any]) -> Storage:
        """Raise ConfigError if two settings exclude each other or the address is bad."""
        url, months = values["url"], values["retention_months"]
        if url is not None and "path" in self.raw.get("storage", {}):  # `values` has a default
            raise place.error(
                "path",
                "names a file, but url a database of PostgreSQL: delete one of them. `export` and"
                " `import` move a ledger",
            )
        if url is None and months:
            raise place.error(
                "retention_months",
                "needs url: a database in a file keeps all requests; leave it out",
            )
        if 0 < months < LEAST_MONTHS:
            raise place.error(
                "retention_months",
                f"must be 0, which keeps all, or at least {LEAST_MONTHS}: budgets and sums need the"
                " requests of this month and of the last",
            )
        path = self.folder / values["path"]
        if url is None:
            return Storage(path)
        try:
            databases = find_databases()
        except ValueError as error:
            raise place.error("url", str(error)) from error
        # Without its database nothing can start, while a provider without its key is only off.
        find_url = partial(self.find_secret, meant="address")
        address, reason = resolve(place, "url", url, find_url, databases.read_url)
        if reason is not None:
            needed = "`serve` and all commands need it to find the database"
            raise place.error("url", f"{reason}; {needed}")
        return Storage(path, databases.read_url(address), months)

    def make_extras(self, core: CoreTables) -> dict[str, object]:
        """Make the records of the extras' tables."""
        found = {}
        for name, table in find_tables().items():
            where = table.in_table or name
            if where in self.values:
                with self.problems.collect(where.partition(".")[0]):
                    place, values = Place(self.file, f"[{where}]"), self.values[where]
                    read = ReadTable(place, values, core, self.look_up)
                    found[name] = make_record(table.find_record(), table.check_values(read))
        return found

    def tell_empty(self) -> Iterator[str]:
        if self.read_keys and not self.raw:
            yield (
                f"{self.path} is empty, as a crash may leave it: no provider and no model is set. Restore it,"
                f" or delete it and type `{PROGRAM} init`"
            )


_SECTIONS: Final = ("server", "storage", "billing", "limits")
_COLLECTIONS: Final = ("providers", "models")


def _list_sections() -> dict[str, dict[str, Setting]]:
    """Return the settings of each fixed table. An extra may add a table, or settings to one."""
    sections = {name: dict(SETTINGS[name]) for name in _SECTIONS}
    for name, table in find_tables().items():
        place = table.in_table or name
        sections.setdefault(place, {}).update(find_settings(table.find_record()))
        outer, _, key = place.rpartition(".")
        if outer:
            sections.setdefault(outer, {})[key] = Setting(untyped, None)
    return sections


def _refuse_lacking(place: Place, name: str, keys: Collection[str]) -> None:
    """Raise ConfigError if one of these keys of a table needs an extra that is missing."""
    for key in keys:
        if needed := find_missing("tables", f"{name}.{key}"):
            raise ConfigError(f"{place.file}: [{name}.{key}] {needed}")
        if needed := find_missing("settings", f"{name}.{key}"):
            raise place.error(key, needed)


def list_warnings(config: Config) -> Iterator[str]:
    """Yield warnings of settings that are valid, but probably not meant."""
    yield from config.doubts
    yield from find_advice().list_warnings(config)


def warn_of_no_model(config: Config) -> Iterator[str]:
    if not config.active_models():
        yield (
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )
