"""Find what an operator has to see to: problems of the books, of providers, of the configuration."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from gateway.admin.fields import name_process
from gateway.api.state import Gateway
from gateway.base.process import PROGRAM, UNKNOWN, find_commit, find_installed, find_version
from gateway.base.times import DAY_MS, format_moment
from gateway.config.load import list_warnings
from gateway.config.records import Config
from gateway.extension import find_added
from gateway.extras.observations.records import UpstreamView
from gateway.extras.operations import health
from gateway.ledger.records import AuditReport, DatabaseUrl, Location
from gateway.ledger.sql.books import Books

Losses = Callable[[Config], Iterable[tuple[str, str, str]]]
"""Finds models that are sold below their costs: model, provider and warning of each. Another extra adds it."""
NAMED: Final = 3
"""The accounts or models that a need names, so that it stays one line."""
BACKUP_DAYS: Final = 7
"""The age at which the overview calls a backup old; alerts have a setting of their own."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that needs doing, in a sentence. Its code says where."""

    code: str
    message: str
    names: Sequence[str] = ()
    """The first accounts, providers or models that it is about."""


def list_needs(
    books: Books,
    gateway: Gateway,
    audit: AuditReport | None,
    *,
    overdrawn: Sequence[str],
    uncosted: Sequence[str],
) -> Iterator[Need]:
    """Yield what needs doing, the most urgent first.

    Args:
        audit: the last full audit of this process.
        overdrawn: accounts with a balance below zero.
        uncosted: models with calls whose cost is unknown.
    """
    if audit is not None and not audit.ok:
        yield Need("audit_failed", "The full audit found that balances and entries disagree.")
    if not gateway.ledger.writable:
        yield Need("ledger_unwritable", "The ledger cannot be written: requests are refused.")
    reload = gateway.last_reload
    if reload is not None and not reload.ok:
        yield Need("reload_refused", "gateway.toml was refused at the last reload.")
    yield from _find_due(gateway)
    yield from _find_failing(books, gateway)
    # gateway.toml cannot switch a model off: an operator did, which is easily forgotten.
    if off := [name for name, model in gateway.config.models.items() if model.off is not None]:
        models = "1 model is" if len(off) == 1 else f"{len(off)} models are"
        yield Need("switched_off", f"{models} switched off.", off[:NAMED])
    if overdrawn:
        accounts = "1 account is" if len(overdrawn) == 1 else f"{len(overdrawn)} accounts are"
        yield Need("overdrawn", f"{accounts} overdrawn.", overdrawn[:NAMED])
    if uncosted:
        message = "What providers bill for some models is unknown."
        yield Need("cost_unknown", message, uncosted[:NAMED])
    is_file = name_node(gateway.config.storage.location) is None
    if is_file and (old := tell_old_backup(books, BACKUP_DAYS)):
        yield Need("backup_old", old)
    yield from _find_doubts(gateway.config)


def _find_doubts(config: Config) -> Iterator[Need]:
    """Yield a need for each model and provider with a price below its cost, and for each other warning."""
    losses = [loss for add in find_added("operations") for loss in cast("Losses", add)(config)]
    for model, provider in dict.fromkeys(loss[:2] for loss in losses):
        message = f"{model} is sold below its cost at {provider}."
        yield Need("sold_below_cost", message, (model,))
    seen = {warning for *_, warning in losses}
    for warning in list_warnings(config):
        if warning not in seen:
            yield Need("config_doubt", warning)


def _find_due(gateway: Gateway) -> Iterator[Need]:
    """Yield a need for each thing on disk that is not in force: the file, its fixed settings, the program."""
    reload = gateway.last_reload
    digest = _find_digest(gateway.read.path)
    if digest not in {b"", gateway.read.digest} and (reload is None or reload.ok):
        text = f"gateway.toml was changed after it was read. To read it, type: {PROGRAM} reload"
        yield Need("reload_due", text)
    if reload is not None and reload.restart_for:
        settings = ", ".join(reload.restart_for)
        yield Need("restart_due", f"A restart is needed for the new values of {settings}.")
    running, installed = (find_version(), find_commit()), find_installed()
    if UNKNOWN not in installed and installed[0] != running[0]:
        text = f"Version {installed[0]} is installed. Restart the gateway to run it: this is {running[0]}."
        yield Need("restart_due", text)
    elif installed[1] not in {"", running[1]}:
        text = f"Commit {installed[1]} is installed. Restart the gateway to run it: this is {running[1] or 'older'}."
        yield Need("restart_due", text)


def _find_digest(path: Path) -> bytes:
    """Return the SHA-256 of a file's bytes; b"" if it is a pipe, which is empty by now, or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""


def _find_failing(books: Books, gateway: Gateway) -> Iterator[Need]:
    """Yield a need for each provider that fails, and for each problem of its keys' renewal."""
    seen: dict[str, list[UpstreamView]] = defaultdict(list)
    for one in health.list_upstream(books, gateway.config):
        seen[one.provider].append(one)
    for name, provider in gateway.routes.providers.items():
        judged = health.judge(seen[name])
        if judged.state == "failing":
            yield Need("provider_failing", f"Provider {name} is {judged.words}.", (name,))
        for problem in {key.problem for key in provider.keys if key.problem}:
            text = f"A key of provider {name} was not renewed: {problem}."
            yield Need("key_not_renewed", text, (name,))


def tell_old_backup(books: Books, backup_days: int) -> str | None:
    """Return a sentence if the last backup is older than so many days, else None; 0 turns this off."""
    last = books.find_last_event("ledger.backup") if backup_days else None
    last_ms = None if last is None else last.at_ms
    if not backup_days or (last_ms is not None and books.clock() - last_ms < backup_days * DAY_MS):
        return None
    when = "No backup is known" if last_ms is None else f"The last is of {format_moment(last_ms)}"
    often = "day" if backup_days == 1 else f"{backup_days} days"
    return f"{when}; there should be one every {often}."


def name_node(location: Location) -> str | None:
    """Name this process if others can serve from the ledger, too."""
    return name_process(os.getpid()) if isinstance(location, DatabaseUrl) else None
