"""gateway.toml as frozen records, checked as a whole; `config_settings` has every key of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from gateway.config_reader import (
    ConfigError,
    Place,
    parse_toml,
    quote_key,
    read_table,
    show,
    suggest,
)
from gateway.config_settings import SETTINGS
from gateway.config_values import Network, check_model_id, resolve_api_key
from gateway.money import FREE, Price

__all__ = [
    "SETTINGS",
    "Billing",
    "Config",
    "ConfigError",
    "Limits",
    "Model",
    "Provider",
    "Route",
    "Server",
    "Storage",
    "load_config",
]


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
    """An origin: scheme, host and port, no more."""
    trusted_proxies: tuple[Network, ...]

    @property
    def max_body_bytes(self) -> int:
        return self.max_body_mb * 2**20


@dataclass(frozen=True, slots=True)
class Storage:
    path: Path
    """Absolute."""


@dataclass(frozen=True, slots=True)
class Billing:
    currency: str
    hold_output_tokens: int
    demo_credit_nano: int | None
    low_balance_nano: int | None
    top_up_text: str | None


@dataclass(frozen=True, slots=True)
class Limits:
    """Of a key that has none of its own; 0 means none."""

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    dialect: Literal["chat", "messages", "demo"]
    base_url: str
    """Without a trailing slash; "" for demo."""
    api_key: str = field(repr=False)
    """"" when it asks for none."""
    off: str | None
    """Why it is off; None means on."""
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    total_timeout: float
    max_concurrency: int
    on_disconnect: Literal["abort", "drain"]
    stream_usage: bool
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"]
    headers: Mapping[str, str] = field(repr=False)


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
    reasoning: Literal["effort", "budget", "none"] | None
    """None means what its provider's dialect makes likely."""
    created: int
    """Unix seconds; 0 means unknown."""
    price: Price
    free: bool


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    server: Server
    storage: Storage
    billing: Billing
    limits: Limits
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]

    def active_models(self) -> dict[str, Model]:
        """Models with a provider that is on, their routes cut down to such providers."""
        return {
            model.id: dataclasses.replace(model, routes=routes)
            for model in self.models.values()
            if (routes := tuple(r for r in model.routes if self.providers[r.provider].off is None))
        }


@dataclass(frozen=True, slots=True)
class _Keys:
    """Where providers' keys are looked up."""

    folder: Path
    environ: Mapping[str, str]
    wanted: bool

    def find(self, value: str | None) -> tuple[str, str | None]:
        """The key and, when there is none to be had, why its provider is off."""
        if value is None:
            return "", None
        if not self.wanted:
            return "", "its key was not looked up"
        return resolve_api_key(value, self.folder, self.environ)


def load_config(path: Path, environ: Mapping[str, str], *, read_keys: bool = True) -> Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is looked up and every provider with one is off: for
    operators' verbs, which run where the server's variables and credentials may be out of reach.

    Raises:
        ConfigError: the first thing that is wrong in it.
    """
    file = str(path)
    folder = path.absolute().parent
    root = _read_root(file, parse_toml(path))
    keys = _Keys(folder, environ, read_keys)
    providers = {n: _read_provider(file, n, raw, keys) for n, raw in root["providers"].items()}
    models = {n: _read_model(file, n, raw, providers) for n, raw in root["models"].items()}
    billing = root["billing"]
    return Config(
        path=path,
        server=Server(**root["server"]),
        storage=Storage(folder / root["storage"]["path"]),
        billing=Billing(
            demo_credit_nano=billing.pop("demo_credit"),
            low_balance_nano=billing.pop("low_balance"),
            **billing,
        ),
        limits=Limits(**root["limits"]),
        providers=MappingProxyType(providers),
        models=MappingProxyType(models),
    )


_SECTIONS = ("server", "storage", "billing", "limits")
_COLLECTIONS = ("providers", "models")


def _read_root(file: str, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fixed tables read, the named ones as they are."""
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


def _read_provider(file: str, name: str, raw: object, keys: _Keys) -> Provider:
    place = Place(file, f"[providers.{quote_key(name)}]")
    if not name.isprintable() or not name.strip() or "/" in name:
        raise place.error("", "a provider's name must be printable and have no slash")
    settings = read_table(place, raw, SETTINGS["providers.NAME"])
    if settings["dialect"] == "demo":
        for key in ("base_url", "api_key"):
            if settings[key] is not None:
                raise place.error(key, "must be left out: the demo provider is built in")
    elif settings["base_url"] is None:
        raise place.error(
            "base_url", "is missing; it is " + SETTINGS["providers.NAME"]["base_url"].doc
        )
    try:
        key, off = keys.find(settings.pop("api_key"))
    except ValueError as error:
        raise place.error("api_key", str(error)) from error
    return Provider(
        name=name, api_key=key, off=off, base_url=settings.pop("base_url") or "", **settings
    )


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
            raise place.error("routes", f"there is no [providers.{route.provider}]; {known}")
    price = _read_price(place, settings.pop("price"))
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    return Model(
        id=model_id, owned_by=owner, routes=routes, price=price, free=price is FREE, **settings
    )


def _check_quoting(place: Place, model_id: str, raw: object) -> None:
    """`[models.gpt-4.1]` is TOML for a model `gpt-4` that has a table `1`."""
    inner = raw if isinstance(raw, dict) else {}
    for key, value in inner.items():
        if isinstance(value, dict) and key not in SETTINGS["models.ID"]:
            raise place.error(
                quote_key(key),
                "unknown table; a model id with a dot goes in quotes: "
                f"[models.{quote_key(f'{model_id}.{key}', always=True)}]",
            )


def _read_price(place: Place, raw: object) -> Price:
    if raw == "free":
        return FREE
    if not isinstance(raw, dict):
        shown = show(raw)
        raise place.error(
            "price", f'must be {{ input = 0.15, output = 0.60 }} or "free", not {shown}'
        )
    within = dataclasses.replace(place, within="price.")
    amounts = read_table(within, raw, SETTINGS["models.ID.price"])
    for key in ("cached_input", "cache_write"):
        if amounts[key] is None:
            amounts[key] = amounts["input"]
    if not any(amounts.values()):
        raise place.error("price", 'is 0 throughout; write price = "free" if that is meant')
    return Price(**amounts)
