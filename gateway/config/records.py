"""The configuration as records; `load` makes them, and nothing changes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gateway.config.values import Network
from gateway.dialects import MaxTokensField, ModelKind, Reasoning
from gateway.prices import FREE_OF_CHARGE, PriceList


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
    embeddings_base64: bool
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
    """0 for a model that makes embeddings."""
    max_input_tokens: int
    reasoning: Reasoning | None
    """None means the default of the provider's dialect."""
    created: int
    """Unix seconds; 0 means unknown."""
    prices: PriceList
    allow: frozenset[str]
    """Fields and tools that callers may send although it has no price and may change the provider's bill."""
    kind: ModelKind = "chat"

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
