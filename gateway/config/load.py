"""Read gateway.toml into frozen records, checked as a whole. `settings` lists its keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from gateway.config.prices import read_price_list
from gateway.config.reader import (
    ConfigError,
    Place,
    parse_toml,
    quote_key,
    read_table,
    show,
    suggest,
)
from gateway.config.settings import SETTINGS
from gateway.config.values import Network, check_model_id, check_proxy, resolve_secret
from gateway.dialects import DEMO, UPSTREAMS, MaxTokensField, Reasoning
from gateway.prices import FREE_OF_CHARGE, PriceList

MAX_OUTPUT_TOKENS: Final = 128_000
"""The output limit of a model without one of its own: the largest that vendors offer."""


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int
    max_body_mb: int
    max_in_flight: int
    drain_seconds: float
    max_bodies_mb: int
    header_seconds: float
    body_idle_seconds: float
    body_total_seconds: float
    comment_seconds: float
    stall_seconds: float
    log: Literal["human", "json"]
    public_url: str | None
    """An origin: scheme, host and port, without a path."""
    trusted_proxies: tuple[Network, ...]

    @property
    def max_body_bytes(self) -> int:
        return self.max_body_mb * 2**20


@dataclass(frozen=True, slots=True)
class Storage:
    path: Path
    """Absolute path of the database."""


@dataclass(frozen=True, slots=True)
class Billing:
    currency: str
    hold_output_tokens: int
    demo_credit_nano: int | None
    low_balance_nano: int | None
    top_up_text: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Defaults for keys, or for accounts, without limits of their own; 0 means unlimited."""

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    dialect: str
    """A key of `dialects.UPSTREAMS`."""
    base_url: str
    """The address without a trailing slash; "" for demo."""
    api_key: str = field(repr=False)
    """The resolved key; "" if the provider needs none."""
    off: str | None
    """The reason why the provider is off; None means on."""
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    total_timeout: float
    max_concurrency: int
    on_disconnect: Literal["abort", "drain"]
    stream_usage: bool
    max_tokens_field: MaxTokensField
    leading_system: bool
    headers: Mapping[str, str] = field(repr=False)
    proxy: str = field(default="", repr=False)
    """An address, perhaps with a password; "" for a direct connection."""


@dataclass(frozen=True, slots=True)
class Route:
    provider: str
    upstream_model: str


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    owned_by: str
    routes: tuple[Route, ...]
    max_output_tokens: int
    max_input_tokens: int
    reasoning: Reasoning | None
    """None means the default of the provider's dialect."""
    created: int
    """Unix seconds; 0 means unknown."""
    prices: PriceList
    allow: frozenset[str]
    """What callers may send although it has no price and may change the provider's bill."""

    @property
    def free(self) -> bool:
        return self.prices is FREE_OF_CHARGE


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    server: Server
    storage: Storage
    billing: Billing
    limits: Limits
    account_limits: Limits
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]

    def models_of(self, provider: Provider) -> list[str]:
        """Return the ids of the models that have a route to the provider."""
        return [
            model.id
            for model in self.models.values()
            if any(route.provider == provider.name for route in model.routes)
        ]

    def active_models(self) -> dict[str, Model]:
        """Return the models with a provider that is on, their routes cut down to such providers."""
        return {
            model.id: dataclasses.replace(model, routes=routes)
            for model in self.models.values()
            if (routes := tuple(r for r in model.routes if self.providers[r.provider].off is None))
        }


def load_config(path: Path, environ: Mapping[str, str], *, read_keys: bool = True) -> Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is resolved, and every provider with a key is off. This
    is for operators' verbs, which may run without the server's variables and credentials.

    Raises:
        ConfigError: describes the first error in the file.
    """
    file = str(path)
    folder = path.absolute().parent
    root = _read_root(file, parse_toml(path))

    def resolve(value: str | None) -> tuple[str, str | None]:
        if value is None:
            return "", None
        if not read_keys:
            return "", "its key was not looked up"
        return resolve_secret(value, folder, environ)

    providers = {n: _read_provider(file, n, raw, resolve) for n, raw in root["providers"].items()}
    models = {n: _read_model(file, n, raw, providers) for n, raw in root["models"].items()}
    billing, limits, server = root["billing"], root["limits"], Server(**root["server"])
    return Config(
        path=path,
        server=server,
        storage=Storage(folder / root["storage"]["path"]),
        billing=Billing(
            demo_credit_nano=billing.pop("demo_credit"),
            low_balance_nano=billing.pop("low_balance"),
            **billing,
        ),
        account_limits=_find_account_limits(limits.pop("account_in_flight"), server),
        limits=Limits(**limits),
        providers=MappingProxyType(providers),
        models=MappingProxyType(models),
    )


def _find_account_limits(share: int | None, server: Server) -> Limits:
    """Return the defaults for accounts: by default one may use half of the gateway."""
    most = max(server.max_in_flight // 2, 1) if share is None else share
    return Limits(requests_per_minute=0, tokens_per_minute=0, concurrency=most)


_SECTIONS = ("server", "storage", "billing", "limits")
_COLLECTIONS = ("providers", "models")
_SECRETS = ("api_key", "proxy")
"""The keys of a provider that may name a variable or a file."""


def _read_root(file: str, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Read the fixed tables; return the named ones (providers, models) unread."""
    for name, value in raw.items():
        if name not in (*_SECTIONS, *_COLLECTIONS):
            kind = "table" if isinstance(value, dict) else "key"
            shown = f"[{quote_key(name)}]" if kind == "table" else quote_key(name)
            known = suggest(name, (*_SECTIONS, *_COLLECTIONS))
            raise ConfigError(f"{file}: {shown}: unknown {kind}; {known}")
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {name}: must be a table, not {show(value)}")
    sections = {
        name: read_table(Place(file, f"[{name}]"), raw.get(name, {}), SETTINGS[name])
        for name in _SECTIONS
    }
    return sections | {name: raw.get(name, {}) for name in _COLLECTIONS}


def _read_provider(
    file: str, name: str, raw: object, resolve: Callable[[str | None], tuple[str, str | None]]
) -> Provider:
    """Read a provider. `resolve` returns a secret, or "" and why the provider is off without it."""
    place = Place(file, f"[providers.{quote_key(name)}]")
    if not name.isprintable() or not name.strip() or "/" in name:
        raise place.error("", "a provider's name must be printable text without a slash")
    settings = read_table(place, raw, SETTINGS["providers.NAME"])
    if settings["dialect"] == DEMO:
        for key in ("base_url", *_SECRETS):
            if settings[key] is not None:
                raise place.error(key, "must be left out: the demo provider is built in")
        settings["base_url"] = ""
    elif settings["base_url"] is None:
        raise place.error(
            "base_url", "is missing; it is " + SETTINGS["providers.NAME"]["base_url"].doc
        )
    off = None
    for key in _SECRETS:
        try:
            settings[key], reason = resolve(settings[key])
            if key == "proxy" and settings[key]:
                check_proxy(settings[key])
        except ValueError as error:
            raise place.error(key, str(error)) from error
        off = off or reason
    return Provider(name=name, off=off, **settings)


def _read_model(file: str, model_id: str, raw: object, providers: Mapping[str, Provider]) -> Model:
    place = Place(file, f"[models.{quote_key(model_id, always=True)}]")
    try:
        check_model_id(model_id)
    except ValueError as error:
        raise place.error("", str(error)) from error
    _check_quoting(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"])
    routes = tuple(Route(*pair) for pair in settings.pop("routes"))
    for route in routes:
        if route.provider not in providers:
            known = suggest(route.provider, providers)
            raise place.error(
                "routes", f"there is no [providers.{quote_key(route.provider)}]; {known}"
            )
    prices = read_price_list(place, settings.pop("price"), settings.pop("price_when"))
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    limit = settings.pop("max_output_tokens")
    if limit is None:
        if any(UPSTREAMS[providers[one.provider].dialect].requires_limit for one in routes):
            raise place.error(
                "max_output_tokens", "is missing; a messages provider has to be told the limit"
            )
        limit = MAX_OUTPUT_TOKENS
    return Model(
        id=model_id,
        owned_by=owner,
        routes=routes,
        max_output_tokens=limit,
        prices=prices,
        **settings,
    )


def _check_quoting(place: Place, model_id: str, raw: object) -> None:
    """Refuse a model id that lacks quotes: TOML reads `[models.gpt-4.1]` as table `1` of `gpt-4`."""
    inner = raw if isinstance(raw, dict) else {}
    for key, value in inner.items():
        if isinstance(value, dict) and key not in SETTINGS["models.ID"]:
            raise place.error(
                quote_key(key),
                "unknown table; put a model id with a dot in quotes: "
                f"[models.{quote_key(f'{model_id}.{key}', always=True)}]",
            )
