"""The tables [storage] and [alerts]: their secrets looked up, and what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.config.reader import Place
from gateway.config.records import Alerts, Storage
from gateway.config.values import check_webhook
from gateway.ledger.locations import DatabaseUrl, read_database_url

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


NO_ALERTS: Final = Alerts("", "", (), "off", 0)


def read_alerts(
    place: Place,
    settings: Mapping[str, Any],
    look_up: Callable[[str], tuple[str, str | None]] | None,
) -> Alerts:
    """Make the record. Without `look_up`, a secret is only known to be set.

    Raises:
        ConfigError: a secret cannot be looked up, the webhook is no address, or has no secret.
    """
    found = dict(settings)
    for key in ("webhook", "webhook_secret"):
        given = found[key] or ""
        try:
            found[key] = _look_up(given, look_up) if given and look_up is not None else given
            if key == "webhook" and given and look_up is not None:
                check_webhook(found[key])
        except ValueError as error:
            raise place.error(key, str(error)) from error
    if found["webhook"] and not found["webhook_secret"]:
        raise place.error("webhook_secret", "is missing; it signs what is posted to the webhook")
    return Alerts(**found)


def check_backups(place: Place, alerts: Alerts, storage: Storage | None) -> None:
    """Refuse to watch backups that the gateway does not make: the alert would never end.

    Raises ConfigError. `storage` is None if it has an error of its own.
    """
    if alerts.backup_days and storage is not None and storage.url is not None:
        raise place.error(
            "backup_days",
            "needs a database in a file: the backups of [storage] url are PostgreSQL's own. Leave it"
            " out",
        )


def _look_up(given: str, look_up: Callable[[str], tuple[str, str | None]]) -> str:
    """Unlike a provider, alerts are not off without their secret: nobody would notice."""
    secret, reason = look_up(given)
    if reason is not None:
        raise ValueError(f"cannot be used: {reason}")
    return secret
