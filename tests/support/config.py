"""The gateway.toml of the test gateways, with scripted providers.

The breaker shuts off a provider that fails repeatedly, so every test that plays faults takes a
model that no other test uses: the shared configuration has a row of models of each kind.
"""

from __future__ import annotations

import itertools
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, Final, Literal

from gateway.extension import find_dialects, find_kinds
from tests.support.chat import MAX_OUTPUT_TOKENS, PRICE_TOML

UPSTREAM_NAME: Final = "up-model"
"""The provider's name of the model, which no caller may ever see."""
MAX_BODY_MB: Final = 1

TABLES: Final = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8"))
SETTINGS: Final[dict[str, str]] = TABLES["settings"]
PATIENT: Final = SETTINGS["patient"]
BRISK: Final = SETTINGS["brisk"]

Dialect = Literal["chat", "messages", "responses", "demo"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model: its routes in order, and the settings of its providers."""

    places: tuple[str, ...]
    count: int
    options: str = PATIENT
    dialects: tuple[Dialect, ...] = ()
    """The dialect of the provider of each route; chat by default."""
    model_options: str = ""
    makes: str = ""
    """The settings of a model that makes no tokens."""
    price: str = ""
    """In place of the price of all test models."""

    @property
    def is_served(self) -> bool:
        """Whether the extras of its models and providers are there."""
        kind = re.search('kind = "(.*)"', f"{self.makes}\n{self.model_options}")
        is_kind = kind is None or kind[1] in find_kinds()
        return is_kind and (not self.dialects or bool(find_dialects().keys() & {*self.dialects}))


COMPLETES: Final = SETTINGS["completes"]
EMBEDS: Final = SETTINGS["embeds"]
SPEAKS: Final = SETTINGS["speaks"]
HEARS: Final = SETTINGS["hears"]
RANKS: Final = SETTINGS["ranks"]
DRAWS: Final = SETTINGS["draws"]


def _read_value(value: Any) -> Any:
    if isinstance(value, str):
        return Template(Template(value).substitute(SETTINGS)).substitute(SETTINGS)
    return tuple(value) if isinstance(value, list) else value


def _read_kind(given: Mapping[str, Any]) -> Kind:
    values = {"places": ["alpha"], "count": 1, **given}
    return Kind(**{name: _read_value(value) for name, value in values.items()})


KINDS: Final = {name: _read_kind(given) for name, given in TABLES["kinds"].items()}

NO_LIMITS: Final = "account_in_flight = 0"
"""One account stands for many callers in most tests, so it has no limit."""


QUIET: Final = "\n".join(
    one.read_text(encoding="utf-8")
    for one in sorted(Path(__file__).parents[1].glob("extras/*/quiet.toml"))
)
"""Settings by which extras change nothing: only their own tests may depend on them."""


@dataclass(frozen=True, slots=True)
class Places:
    """Base URLs by the name used in KINDS, and the secret of each provider."""

    urls: Mapping[str, str]
    secrets: Mapping[str, str] = field(default_factory=dict)


def make_places(ports: Mapping[str, int]) -> Places:
    """Choose the providers' addresses: scripted ones, and ports that fail."""
    urls = {name: f"http://127.0.0.1:{port}/v1" for name, port in ports.items()}
    urls["tls"] = f"https://127.0.0.1:{ports['alpha']}/v1"
    urls["nameless"] = "http://no-such-host.invalid/v1"
    return Places(urls, {name: f"upstream-key-{name}-{secrets.token_hex(12)}" for name in urls})


def write_config(
    places: Places,
    *,
    port: int,
    kinds: Mapping[str, Kind] = KINDS,
    server: str = "",
    billing: str = "",
    limits: str = NO_LIMITS,
    extras: str = QUIET,
) -> str:
    """Return the whole file as text."""
    listen = f'host = "127.0.0.1"\nport = {port}'
    drain = "" if "drain_seconds" in server else "drain_seconds = 2"
    most = "" if "max_body_mb" in server else f"max_body_mb = {MAX_BODY_MB}"
    parts = [
        f"[server]\n{listen}\n{most}\n{drain}\n{server}",
        '[storage]\npath = "gateway.db"',
        f'[billing]\ncurrency = "USD"\n{billing}',
        f"[limits]\nrequests_per_minute = 0\ntokens_per_minute = 0\nconcurrency = 0\n{limits}",
        extras,
    ]
    for name, kind in kinds.items():
        for number in range(kind.count):
            parts += _provider_tables(name, kind, number, places)
            parts.append(_model_table(name, kind, number))
    return "\n\n".join(parts) + "\n"


def _provider_tables(name: str, kind: Kind, number: int, places: Places) -> list[str]:
    tables = []
    for place, dialect in itertools.zip_longest(kind.places, kind.dialects, fillvalue="chat"):
        lines = [f"[providers.{name}-{number}-{place}]", f'dialect = "{dialect}"', kind.options]
        if dialect != "demo":
            lines.append(f'base_url = "{places.urls[place]}"')
            lines.append(f'api_key = "{places.secrets[place]}"')
        tables.append("\n".join(lines))
    return tables


def _model_table(name: str, kind: Kind, number: int) -> str:
    routes = ", ".join(f'"{name}-{number}-{place}/{UPSTREAM_NAME}"' for place in kind.places)
    talks = f"max_output_tokens = {MAX_OUTPUT_TOKENS}\nprice = {kind.price or PRICE_TOML}"
    return (
        f'[models."{name}/{number}"]\nowned_by = "tester"\nroutes = [{routes}]\n'
        f"{kind.makes or talks}\n{kind.model_options}"
    )
