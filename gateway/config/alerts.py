"""The table [alerts]: its secrets looked up, and what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.config.problems import Place
from gateway.config.records import Alerts, Storage
from gateway.config.values import check_webhook

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
