"""The table [storage]: a file, or a database whose address is a secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.config.problems import Place
from gateway.config.records import Storage
from gateway.ledger import DatabaseUrl, read_database_url

LookUp = Callable[[str], tuple[str, str | None]]

LEAST_MONTHS: Final = 2
"""The least `retention_months` but 0: budgets and sums need the requests of two months."""


def read_storage(
    place: Place,
    raw: Mapping[str, object],
    settings: Mapping[str, Any],
    folder: Path,
    look_up: LookUp,
) -> Storage:
    """Make the record. `raw` is the table as it is written: a default names no file.

    Raises:
        ConfigError: the address cannot be looked up or is none, or two settings exclude each other.
    """
    url, months = settings["url"], settings["retention_months"]
    if url is not None and "path" in raw:
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
    found = None if url is None else _find_url(place, url, look_up)
    return Storage(folder / settings["path"], found, months)


def _find_url(place: Place, url: str, look_up: LookUp) -> DatabaseUrl:
    """Read the address. Without it nothing can start, while a provider without its key is just off."""
    try:
        address, reason = look_up(url)
        if reason is None:
            return read_database_url(address)
    except ValueError as error:
        raise place.error("url", str(error)) from error
    needed = "`serve` and all commands need it to find the database"
    raise place.error("url", f"{reason}, or is empty; {needed}")
