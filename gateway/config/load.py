"""Read gateway.toml into frozen records, checked as a whole. `settings` lists its keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.base.process import PROGRAM
from gateway.config import records
from gateway.config.authorities import Authorities, read_authorities
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
    read_table,
    show,
    suggest,
)
from gateway.config.scalars import untyped
from gateway.config.secrets import Found, LookUp, ReadTable, resolve, resolve_secret
from gateway.config.settings import SETTINGS
from gateway.extension import find_advice, find_databases, find_missing, find_tables


def load_config(
    path: Path, environ: Mapping[str, str], *, read_keys: bool = True
) -> records.Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is resolved, and every provider with a key is off. This
    is for operators' verbs, which may run without the server's variables and credentials.

    Raises:
        ConfigError: has all errors of the file, in its order.
    """
    # Before the file is read: a change in the meantime counts as one that is not read yet.
    digest = find_digest(path)
    return replace(
        _read_config(path, parse_toml(path), environ, read_keys=read_keys), digest=digest
    )


def find_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file's bytes, which shows changes; b"" if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""


def load_defaults(path: Path, environ: Mapping[str, str]) -> records.Config:
    """Return the defaults, as of an empty file. Nothing is read."""
    return _read_config(path, {}, environ, read_keys=False)


def load_table(path: Path, environ: Mapping[str, str], name: str) -> records.Config:
    """Read one fixed table, such as `storage`, and leave the rest at its defaults: it may be broken.

    Raises:
        ConfigError: the file cannot be read, or the table is wrong.
    """
    return _read_config(path, {name: parse_table(path, name)}, environ, read_keys=False)


def _read_config(
    path: Path, raw: Mapping[str, object], environ: Mapping[str, str], *, read_keys: bool
) -> records.Config:
    file, folder, problems = str(path), path.absolute().parent, Problems(raw)
    root = _read_root(file, raw, problems)
    look_up = partial(resolve_secret, folder=folder, environ=environ)
    own = Authorities(folder, environ if read_keys else None)
    trusted = read_authorities(file, root, own, problems)
    providers = read_providers(file, root, look_up if read_keys else _skip, trusted, problems)
    models = read_models(file, root, providers, problems)
    storage = None
    if "storage" in root:
        with problems.collect("storage"):
            storage = _read_storage(
                file, raw, root["storage"], folder, partial(look_up, meant="address")
            )
    if storage is None:
        root.pop("storage", None)
    extras = _finish_extras(file, root, look_up if read_keys else None, problems)
    problems.raise_all()
    assert storage is not None  # otherwise there was a problem
    limits, server = root["limits"], records.make_record(records.Server, root["server"])
    share = limits.pop("account_in_flight")
    return records.Config(
        path=path,
        server=server,
        storage=storage,
        billing=records.make_record(records.Billing, root["billing"]),
        account_limits=records.Limits(
            0, 0, max(server.max_in_flight // 2, 1) if share is None else share
        ),
        limits=records.Limits(**limits),
        providers=MappingProxyType(providers),
        models=MappingProxyType(models),
        lacking=_find_lacking(root["models"]),
        extras=MappingProxyType(extras),
        doubts=(*_tell_empty(path, raw, read_keys=read_keys), *problems.doubts),
        literals=tuple(find_advice().find_literals(raw)),
    )


def _find_lacking(models: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the models whose kind needs an extra that is missing, each with the reason."""
    lacks = ((name, find_lack(table, "kind")) for name, table in models.items())
    return {name: lack for name, lack in lacks if lack is not None}


def _tell_empty(path: Path, raw: Mapping[str, object], *, read_keys: bool) -> Iterator[str]:
    if read_keys and not raw:
        yield (
            f"{path} is empty, as a crash may leave it: no provider and no model is set. Restore it,"
            f" or delete it and type `{PROGRAM} init`"
        )


def _finish_extras(
    file: str, root: Mapping[str, Mapping[str, object]], look_up: LookUp | None, problems: Problems
) -> dict[str, object]:
    """Make the records of the extras' tables that have no error."""
    found = {}
    for name, table in find_tables().items():
        place = table.of or name
        if place in root:
            with problems.collect(place.partition(".")[0]):
                read = ReadTable(Place(file, f"[{place}]"), root[place], root, look_up)
                found[name] = records.make_record(table.find(), table.finish(read))
    return found


def _skip(_: str) -> Found:
    return "", "its key was not looked up"


_SECTIONS = ("server", "storage", "billing", "limits")
_COLLECTIONS = ("providers", "models")


def _read_root(file: str, raw: Mapping[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """Read the fixed tables; return the named ones (providers, models) unread."""
    for name, value in raw.items():
        with problems.collect(name):
            _check_root_name(file, name, value)
    # A misnamed table may be meant to hold the providers, without which each model looks wrong.
    root = {name: {} if problems else raw.get(name, {}) for name in _COLLECTIONS}
    sections = _list_sections()
    for name in sections:
        table = raw.get(name, {})
        if isinstance(table, dict) and "." not in name:
            with problems.collect(name):
                _read_section(file, name, table, sections, root)
    return root


def _read_section(
    file: str,
    name: str,
    raw: Mapping[str, object],
    sections: Mapping[str, Mapping[str, Setting]],
    root: dict[str, dict[str, object]],
) -> None:
    """Read a fixed table into `root`, and the tables of extras that it has. Raises ConfigError."""
    inner = {key: one for one in sections for key in [one.removeprefix(f"{name}.")] if key != one}
    for key in raw.keys() - sections[name].keys() - inner.keys():
        if needed := find_missing("tables", f"{name}.{key}"):
            raise ConfigError(f"{file}: [{name}.{key}] {needed}")
        if needed := find_missing("settings", f"{name}.{key}"):
            raise ConfigError(f"{file}: [{name}] {key}: {needed}")
    settings = {**sections[name], **dict.fromkeys(inner, Setting(untyped, None))}
    values = read_table(Place(file, f"[{name}]"), raw, settings)
    found = {inner[key]: values.pop(key) for key in inner}
    root[name] = values
    for one, table in found.items():
        if table is not None:
            root[one] = read_table(Place(file, f"[{one}]"), table, sections[one])


def _list_sections() -> dict[str, Mapping[str, Setting]]:
    """Return the settings of each fixed table. An extra may add a table, or settings to one."""
    sections = {name: SETTINGS[name] for name in _SECTIONS}
    for name, one in find_tables().items():
        place = one.of or name
        sections[place] = {**sections.get(place, {}), **records.find_settings(one.find())}
    return sections


def _check_root_name(file: str, name: str, value: object) -> None:
    """Refuse a name that the file cannot have at its top."""
    named = (*_list_sections(), *_COLLECTIONS)
    known = dict.fromkeys(one for one in named if "." not in one)
    if name not in known:
        kind = "table" if isinstance(value, dict) else "key"
        shown = f"[{quote_key(name)}]" if kind == "table" else quote_key(name)
        if needed := find_missing("tables", name):
            raise ConfigError(f"{file}: {shown} {needed}")
        raise ConfigError(f"{file}: {shown}: unknown {kind}; {suggest(name, known)}")
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {name}: must be a table, not {show(value)}")


LEAST_MONTHS: Final = 2
"""The least `retention_months` but 0: budgets and sums need the requests of two months."""


def _read_storage(
    file: str, raw: Mapping[str, Any], settings: Mapping[str, Any], folder: Path, look_up: LookUp
) -> records.Storage:
    """Make the record. Raises ConfigError if two settings exclude each other or the address is bad."""
    place = Place(file, "[storage]")
    url, months = settings["url"], settings["retention_months"]
    if url is not None and "path" in raw.get("storage", {}):  # `settings` has a default path
        raise place.error(
            "path",
            "names a file, but url a database of PostgreSQL: delete one of them. `export` and"
            " `import` move a ledger",
        )
    if url is None and months:
        raise place.error(
            "retention_months", "needs url: a database in a file keeps all requests; leave it out"
        )
    if 0 < months < LEAST_MONTHS:
        raise place.error(
            "retention_months",
            f"must be 0, which keeps all, or at least {LEAST_MONTHS}: budgets and sums need the"
            " requests of this month and of the last",
        )
    if url is None:
        return records.Storage(folder / settings["path"])
    try:
        databases = find_databases()
    except ValueError as error:
        raise place.error("url", str(error)) from error
    # Without its database nothing can start, while a provider without its key is only off.
    address, reason = resolve(place, "url", url, look_up, databases.read_url)
    if reason is not None:
        needed = "`serve` and all commands need it to find the database"
        raise place.error("url", f"{reason}; {needed}")
    return records.Storage(folder / settings["path"], databases.read_url(address), months)


def list_warnings(config: records.Config) -> Iterator[str]:
    """Yield warnings of settings that are valid, but probably not meant."""
    yield from config.doubts
    yield from find_advice().list_warnings(config)


def warn_of_no_model(config: records.Config) -> Iterator[str]:
    if not config.active_models():
        yield (
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )
