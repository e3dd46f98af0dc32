"""The table [alerts] of gateway.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from gateway.config import scalars as read
from gateway.config import secrets, values
from gateway.config.reader import Setting, looks_secret
from gateway.config.records import ReadTable
from gateway.config.secrets import is_literal, resolve


@dataclass(frozen=True, slots=True)
class Alerts:
    """The receivers of alerts; without a webhook and a command no alert is sent."""

    webhook: Annotated[str, Setting(secrets.secret, None)] = field(repr=False)
    """An address, perhaps with a secret in it; "" for none."""
    webhook_secret: Annotated[str, Setting(secrets.secret, None)] = field(repr=False)
    command: Annotated[
        tuple[str, ...], Setting(values.array(read.text, '["/usr/local/bin/page"]'), [])
    ]
    holder_webhooks: Annotated[
        Literal["public", "any", "off"], Setting(read.choice("public", "any", "off"), "public")
    ]
    backup_days: Annotated[int, Setting(read.integer(0, 3650), 0)]
    command_env: Annotated[tuple[str, ...], Setting(values.variables, [])] = ()
    """The names of variables that the command gets beside the usual ones."""
    authorities: str = field(default="", repr=False)
    """The certificates of [server] ca_file, for webhooks."""

    @property
    def channels(self) -> tuple[Literal["webhook", "command"], ...]:
        """The operator's channels that are configured."""
        found: tuple[Literal["webhook", "command"], ...] = ()
        if self.webhook:
            found += ("webhook",)
        if self.command:
            found += ("command",)
        return found

    @property
    def takes_holders(self) -> bool:
        """Whether holders may name webhooks of their own."""
        return bool(self.channels) and self.holder_webhooks != "off"


def check_values(table: ReadTable) -> Mapping[str, object]:
    """Return the record's values. Without `look_up`, a secret is only known to be set.

    Raises ConfigError.
    """
    place, found = table.place, dict(table.values)
    server, storage = table.core.server, table.core.storage
    checks: dict[str, Callable[[str], object]] = {"webhook": check_webhook, "webhook_secret": str}
    for key, check in checks.items():
        found[key] = found[key] or ""
        if found[key] and table.look_up is not None:
            found[key], reason = resolve(place, key, found[key], table.look_up, check)
            # Unlike a provider, alerts are not off without their secret: nobody would notice.
            if reason is not None:
                raise place.error(key, f"cannot be used: {reason}")
    if found["webhook"] and not found["webhook_secret"]:
        raise place.error("webhook_secret", "is missing; it signs what is posted to the webhook")
    if found["backup_days"] and storage is not None and storage.url is not None:
        raise place.error(  # the alert would never end
            "backup_days",
            "needs a database in a file: the backups of [storage] url are PostgreSQL's own. Leave it"
            " out",
        )
    return {**found, "authorities": server.authorities if server else ""}


def find_literals(table: Mapping[str, object]) -> list[str]:
    """Return the keys whose secrets are written out in the file."""
    hook, secret, words = map(table.get, ("webhook", "webhook_secret", "command"))
    shown = {
        # Many addresses of webhooks are secrets themselves.
        "webhook": is_literal(hook) and (urlsplit(hook).query or looks_secret(hook)),
        "webhook_secret": is_literal(secret),
        "command": isinstance(words, list) and any(map(looks_secret, words)),
    }
    return [key for key, is_shown in shown.items() if is_shown]


def check_webhook(value: str) -> None:
    """Raise ValueError if the value is not a webhook's address, which may have a query."""
    problem = 'must be an address such as "https://hooks.example.com/gateway"'
    parts = values.split_address(value, problem)
    if not values.URL.fullmatch(value) or "\\" in value or "@" in parts.netloc or parts.fragment:
        raise ValueError(f"{problem}, without a user name, password or fragment")
    if not values.has_host(parts, "http", "https"):
        raise ValueError(problem)
