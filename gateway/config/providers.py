"""The providers are read with their addresses, keys and proxies; one without its key is off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.config import records, secrets
from gateway.config.models import find_lack
from gateway.config.reader import Place, Problems, quote_key, read_table, read_value
from gateway.config.secrets import COMMAND, Found, LookUp, is_literal, resolve, split_command
from gateway.config.settings import SETTINGS
from gateway.config.values import check_proxy
from gateway.dialects.wire.records import DEMO

Trust = Callable[[Place, str | None], str]
"""Returns the certificates that are trusted with those of a file."""
OPENAI_HOST = "api.openai.com"
_BY_HOST = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "history": ("any", "openai"),
}
"""Settings whose default depends on the vendor: elsewhere, and at OpenAI's address."""
_SECRETS = ("api_key", "proxy")
"""The keys of a provider that may name a variable or a file."""


def read_providers(
    file: str, raw: Mapping[str, Any], look_up: LookUp | None, trust: Trust, problems: Problems
) -> dict[str, records.Provider]:
    """Read all providers without errors. Without `look_up` those with a key are off."""
    providers: dict[str, records.Provider] = {}
    look_up = look_up or _skip
    for name, table in raw.items():
        with problems.collect("providers"):
            if (lack := find_lack(table, "dialect")) is None:
                providers[name] = _read_provider(file, name, table, look_up, trust)
            else:
                found = _read_provider(file, name, {**table, "dialect": "chat"}, look_up, trust)
                providers[name] = replace(found, dialect=table["dialect"], off=lack)
    return providers


def _skip(_: str) -> Found:
    return "", "its key was not looked up"


def _read_provider(
    file: str, name: str, raw: object, look_up: LookUp, trust: Trust
) -> records.Provider:
    """Read a provider; without any of its keys, or without its proxy, it is off."""
    place, problems = Place(file, f"[providers.{quote_key(name)}]"), Problems()
    # A route is split at its first slash.
    if not name.isprintable() or not name.strip() or "/" in name:
        raise place.error("", "a provider's name must be printable text without a slash")
    settings = read_table(place, raw, SETTINGS["providers.NAME"], problems)
    with problems.collect():
        _check_address(place, settings)
    found: list[tuple[str, Found]] = []
    for one in settings.pop("api_key", None) or ():
        with problems.collect():
            found.append((one, _resolve_key(place, one, look_up)))
    renewal = settings.pop("api_key_refresh", 0), settings.pop("command_env", ())
    off, proxy = None, settings.get("proxy")
    settings["proxy"] = ""
    if proxy is not None:
        with problems.collect():
            settings["proxy"], off = resolve(place, "proxy", proxy, look_up, check_proxy)
    with problems.collect():
        settings["authorities"] = trust(place, settings.pop("ca_file", None))
    problems.raise_all()
    is_openai = urlsplit(settings["base_url"]).hostname == OPENAI_HOST
    for key, (elsewhere, there) in _BY_HOST.items():
        if settings[key] is None:
            settings[key] = there if is_openai else elsewhere
    keys = tuple(secret for _, (secret, reason) in found if reason is None)
    sources = tuple(
        _find_source(one, Path(file).absolute().parent, *renewal)
        for one, (_, reason) in found
        if reason is None
    )
    lacking = tuple(reason for _, (_, reason) in found if reason is not None)
    if lacking and not keys:
        off, lacking = lacking[0], ()
    return records.Provider(
        name=name, api_keys=keys, sources=sources, lacking=lacking, off=off, **settings
    )


def _resolve_key(place: Place, value: str, look_up: LookUp) -> Found:
    check = (
        partial(read_value, secrets.provider_key, subject="api_key") if is_literal(value) else str
    )
    return resolve(place, "api_key", value, look_up, check)


def _find_source(
    place: str, folder: Path, refresh_seconds: float, variables: tuple[str, ...]
) -> records.KeySource | None:
    """Return the source of a key that changes; None for a fixed key."""
    command = tuple(split_command(place)) if place.startswith(COMMAND) else ()
    if not command and not place.startswith("file:"):
        return None
    return records.KeySource(place, command, folder, refresh_seconds, variables)


def _check_address(place: Place, settings: dict[str, object]) -> None:
    """Refuse a provider without an address, unless it is the demo, which must have none."""
    if settings.get("dialect") == DEMO:
        for key in ("base_url", *_SECRETS):
            if settings.get(key) is not None:
                raise place.error(key, "must be left out: the demo provider is built in")
        settings["base_url"] = ""
    elif settings.get("base_url", "") is None:
        raise place.error(
            "base_url", "is missing; it is " + SETTINGS["providers.NAME"]["base_url"].what
        )
