"""The providers of gateway.toml: their addresses, and their keys resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from gateway.config.reader import Place, Problems, quote_key, read_table
from gateway.config.records import Provider
from gateway.config.settings import SETTINGS
from gateway.config.values import check_proxy
from gateway.dialects.exchanges import DEMO

OPENAI_HOST = "api.openai.com"
_BY_HOST = {
    "max_tokens_field": ("max_tokens", "max_completion_tokens"),
    "history": ("any", "openai"),
}
"""Settings whose default depends on the vendor: elsewhere, and at OpenAI's address."""
Resolved = tuple[str, str | None]
"""A secret and None, or "" and why it is missing."""
_SECRETS = ("api_key", "proxy")
"""The keys of a provider that may name a variable or a file."""


def read_provider(
    file: str, name: str, raw: object, resolve: Callable[[str | None], Resolved]
) -> Provider:
    """Read a provider; without any of its keys, or without its proxy, it is off."""
    place, problems = Place(file, f"[providers.{quote_key(name)}]"), Problems()
    if not name.isprintable() or not name.strip() or "/" in name:
        raise place.error("", "a provider's name must be printable text without a slash")
    settings = read_table(place, raw, SETTINGS["providers.NAME"], problems)
    with problems.collect():
        _check_address(place, settings)
    found: list[Resolved] = []
    for one in settings.pop("api_key", None) or ():
        with problems.collect():
            found.append(_resolve(place, "api_key", one, resolve))
    off = None
    with problems.collect():
        settings["proxy"], off = _resolve(place, "proxy", settings.get("proxy"), resolve)
    problems.raise_all()
    is_openai = urlsplit(settings["base_url"]).hostname == OPENAI_HOST
    for key, (elsewhere, there) in _BY_HOST.items():
        if settings[key] is None:
            settings[key] = there if is_openai else elsewhere
    keys = tuple(secret for secret, reason in found if reason is None)
    lacking = tuple(reason for _, reason in found if reason is not None)
    if lacking and not keys:
        off, lacking = lacking[0], ()
    return Provider(name=name, api_keys=keys, lacking=lacking, off=off, **settings)


def _resolve(
    place: Place, key: str, value: str | None, resolve: Callable[[str | None], Resolved]
) -> Resolved:
    try:
        secret, reason = resolve(value)
        if key == "proxy" and secret:
            check_proxy(secret)
    except ValueError as error:
        raise place.error(key, str(error)) from error
    return secret, reason


def _check_address(place: Place, settings: dict[str, Any]) -> None:
    """Refuse a provider without an address, unless it is the demo, which must have none."""
    if settings.get("dialect") == DEMO:
        for key in ("base_url", *_SECRETS):
            if settings.get(key) is not None:
                raise place.error(key, "must be left out: the demo provider is built in")
        settings["base_url"] = ""
    elif settings.get("base_url", "") is None:
        raise place.error(
            "base_url", "is missing; it is " + SETTINGS["providers.NAME"]["base_url"].doc
        )
