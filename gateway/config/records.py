"""The configuration as records; `load` makes them, and nothing changes them.

A field that is a key of gateway.toml has its reader and its default beside its type.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from gateway.base.addresses import Network
from gateway.base.money import MAX_AMOUNT_NANO, NANO
from gateway.base.prices import FREE_OF_CHARGE, NO_COSTS, PriceList
from gateway.config import scalars as read
from gateway.config import secrets, values
from gateway.config.reader import Place, Setting
from gateway.dialects.wire import records as dialects
from gateway.ledger.checks import MAX_COUNT
from gateway.ledger.key_records import Limits
from gateway.ledger.records import DatabaseUrl, Location

_MAX_MONTHS: Final = 1200
"""Months of the longest retention, a century: more is a typing error."""

_timeout = read.seconds()
_credit = read.nano_units(MAX_AMOUNT_NANO // NANO)
count = read.integer(0, MAX_COUNT)
token_count = read.integer(1, values.MAX_TOKENS)

Record = TypeVar("Record")


@cache
def find_settings(record: type) -> Mapping[str, Setting]:
    """Return the settings among a record's fields by key: the field's name without `_nano` at its end."""
    hints = get_type_hints(record, include_extras=True).items()
    found = {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}
    return {name.removesuffix("_nano"): setting for name, setting in found.items()}


def make_record(record: Callable[..., Record], table: Mapping[str, object]) -> Record:
    """Make a record of a table's values, which have the names of its keys."""
    names = inspect.signature(record).parameters
    return record(**{name: table[name.removesuffix("_nano")] for name in names})


@dataclass(frozen=True, slots=True)
class Server:
    host: Annotated[str, Setting(read.text, "127.0.0.1")]
    port: Annotated[int, Setting(read.integer(0, values.MAX_PORT), 8080)]
    max_body_mb: Annotated[int, Setting(read.integer(1, 1024), 32)]
    max_in_flight: Annotated[int, Setting(read.integer(1, 1_000_000), 1000)]
    drain_seconds: Annotated[float, Setting(read.seconds(or_zero=True), 30)]
    max_bodies_mb: Annotated[int, Setting(read.integer(1, 1_000_000), 256)]
    header_seconds: Annotated[float, Setting(_timeout, 75)]
    keep_alive_seconds: Annotated[float, Setting(_timeout, 630)]
    """Longer than proxies in front keep idle connections, so that they close them first."""
    body_idle_seconds: Annotated[float, Setting(_timeout, 30)]
    body_total_seconds: Annotated[float, Setting(_timeout, 120)]
    comment_seconds: Annotated[float, Setting(_timeout, 15)]
    stall_seconds: Annotated[float, Setting(_timeout, 60)]
    log: Annotated[Literal["human", "json"], Setting(read.choice("human", "json"), "human")]
    public_url: Annotated[str | None, Setting(values.origin, None)]
    """An origin: scheme, host and port, without a path."""
    trusted_proxies: Annotated[tuple[Network, ...], Setting(values.networks, [])]
    ca_file: Annotated[str | None, Setting(read.text, None)]
    authorities: str = field(repr=False)
    """The certificates in `ca_file`, in PEM, that are trusted beside the system's; "" for none."""


@dataclass(frozen=True, slots=True)
class Storage:
    path: Annotated[Path, Setting(values.database_file, "gateway.db")]
    """The absolute path of the database file; with PostgreSQL, where such a file would be."""
    url: Annotated[DatabaseUrl | None, Setting(secrets.secret, None)] = None
    retention_months: Annotated[int, Setting(read.integer(0, _MAX_MONTHS), 0)] = 0
    """Months for which PostgreSQL keeps requests; 0 means for ever."""

    @property
    def location(self) -> Location:
        return self.path if self.url is None else self.url


@dataclass(frozen=True, slots=True)
class Billing:
    currency: Annotated[
        str, Setting(read.matching(r"[A-Za-z]{1,12}", "a word of 1 to 12 letters"), "USD")
    ]
    hold_output_tokens: Annotated[int, Setting(token_count, 1024)]
    full_hold_below: Annotated[int, Setting(read.integer(0, 1_000_000), 10)]
    """A factor on the most that a request may cost: if less is left, the hold is for that most."""
    demo_credit_nano: Annotated[int | None, Setting(_credit, None)]
    low_balance_nano: Annotated[int | None, Setting(_credit, None)]
    top_up_text: Annotated[str | None, Setting(read.text, None)]


@dataclass(frozen=True, slots=True)
class CoreTables:
    """The core's tables as records, while a file is read; None for one with an error."""

    server: Server | None
    storage: Storage | None
    billing: Billing | None


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table of an extra whose values were read one by one, to be checked as a whole."""

    place: Place
    values: Mapping[str, Any]
    core: CoreTables
    look_up: secrets.LookUp | None
    """Finds secrets; None where they are not wanted, so that only the places are known."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """The source of a provider's key that changes."""

    place: str
    """`file:PATH` or `command:PROGRAM ARGUMENT ...`."""
    command: tuple[str, ...]
    """The program and its arguments; none for a file."""
    folder: Path
    """The folder where relative paths begin, and in which the command runs."""
    refresh_seconds: float
    """How often the command is run, if it does not say when its key ends."""
    variables: tuple[str, ...] = ()
    """The names of variables that the command gets beside the usual ones."""


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    dialect: str
    """One of `extension.find_dialects`."""
    base_url: str
    """The address without a trailing slash; "" for demo."""
    api_keys: tuple[str, ...] = field(repr=False)
    """The resolved keys; none if the provider needs none, or is off. "" for one of a command."""
    sources: tuple[KeySource | None, ...]
    """The source of each key; None for a key that does not change while the process runs."""
    lacking: tuple[str, ...]
    """The reasons why keys are missing of a provider that has others."""
    off: str | None
    """The reason why the provider is off; None means on."""
    connect_timeout: Annotated[float, Setting(_timeout, 5)]
    first_byte_timeout: Annotated[float, Setting(_timeout, 600)]
    idle_timeout: Annotated[float, Setting(_timeout, 300)]
    total_timeout: Annotated[float, Setting(_timeout, 3600)]
    max_concurrency: Annotated[int, Setting(count, 0)]
    on_disconnect: Annotated[
        Literal["abort", "drain"], Setting(read.choice("abort", "drain"), "drain")
    ]
    stream_usage: Annotated[bool, Setting(read.boolean, default=True)]
    max_tokens_field: Annotated[
        dialects.MaxTokensField, Setting(read.choice(*get_args(dialects.MaxTokensField)), None)
    ]
    takes: Annotated[frozenset[dialects.Taken], Setting(values.names(get_args(dialects.Taken)), [])]
    history: Annotated[dialects.History, Setting(read.choice(*get_args(dialects.History)), None)]
    pass_headers: Annotated[tuple[str, ...], Setting(values.header_names, [])]
    """The names of headers that are passed on, in lower case."""
    leading_system: Annotated[bool, Setting(read.boolean, default=False)]
    embeddings_base64: Annotated[bool, Setting(read.boolean, default=True)]
    headers: Annotated[Mapping[str, str], Setting(values.headers, {}, subject="headers")] = field(
        repr=False
    )
    proxy: str = field(default="", repr=False)
    """An address, perhaps with a password; "" for a direct connection."""
    authorities: str = field(default="", repr=False)
    """The certificates of `ca_file`, the server's and its own, as in `Server`."""


@dataclass(frozen=True, slots=True)
class Route:
    provider: str
    upstream_model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.upstream_model}"


@dataclass(frozen=True, slots=True)
class Model:
    id: str
    owned_by: str
    routes: tuple[Route, ...]
    max_output_tokens: int
    """0 for a model that makes no output tokens."""
    max_input_tokens: int
    reasoning: Annotated[
        dialects.Reasoning | None, Setting(read.choice(*get_args(dialects.Reasoning)), None)
    ]
    """None means the default of the provider's dialect."""
    created: Annotated[int, Setting(read.integer(0, 2**40), 0)]
    """Unix seconds; 0 means unknown."""
    prices: PriceList
    allow: frozenset[str]
    """Fields and tools that callers may send although they have no price and may change the bill."""
    kind: str = dialects.DEFAULT_KIND
    costs: Mapping[str, PriceList] = field(default_factory=lambda: NO_COSTS)
    """The prices that the operator pays, by the name of a route's provider; empty if unknown."""
    leave_out: Annotated[frozenset[str], Setting(values.names(dialects.SAMPLING), [])] = frozenset()
    """Fields that the model refuses, so requests leave them out."""
    aliases: tuple[str, ...] = ()
    """Other names that callers may use for it."""
    unit: dialects.InputUnit = "token"
    """The unit in which its input is counted and priced."""
    product: str = ""
    """The product that the prices imply, if it differs from the kind."""
    off: str | None = None
    """The reason why the model itself is off, whatever its providers are; gateway.toml never sets it."""

    @property
    def free(self) -> bool:
        return self.prices is FREE_OF_CHARGE

    @property
    def talks(self) -> bool:
        """Whether it replies to conversations."""
        return self.kind == dialects.DEFAULT_KIND

    @property
    def makes(self) -> str:
        return self.product or self.kind

    @property
    def has_output(self) -> bool:
        return self.max_output_tokens > 0


@dataclass(frozen=True, slots=True)
class Reload:
    """The result of reading the file again while serving."""

    at_ms: int
    """The time at which it began, in Unix milliseconds."""
    ok: bool
    """False means that the file was refused and nothing changed."""
    words: str
    """The changes, or the error. Never a secret."""
    restart_for: tuple[str, ...] = ()
    """The keys whose values in the file take effect at the next start."""


@dataclass(frozen=True, slots=True)
class Config:
    path: Path
    server: Server
    storage: Storage
    billing: Billing
    limits: Limits
    """The limits of keys without their own."""
    account_limits: Limits
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    lacking: Mapping[str, str] = field(default_factory=dict)
    """The models that are not read, as an extra is missing, and what they need."""
    extras: Mapping[str, object] = field(default_factory=dict)
    """The tables of extras as their records, by name; without those in another table that the file lacks."""
    doubts: tuple[str, ...] = field(default=(), compare=False)
    """Settings that are valid, but probably not meant, each with its place."""
    literals: tuple[str, ...] = field(default=(), compare=False)
    """The settings whose secrets are written out in the file."""
    digest: bytes = field(default=b"", compare=False, repr=False)
    """The SHA-256 of the file as it was read, which shows changes; b"" if no server reads it."""

    def find(self, record: type[Record]) -> Record:
        """Return the table of an extra, by the type of its record."""
        return next(one for one in self.extras.values() if isinstance(one, record))

    def models_of(self, provider: Provider) -> list[str]:
        """Return the ids of the models that have a route to the provider."""
        return [
            model.id
            for model in self.models.values()
            if any(route.provider == provider.name for route in model.routes)
        ]

    def upstream_models_of(self, provider: Provider) -> list[str]:
        """Return the provider's names of the models that are routed to it."""
        routes = (route for model in self.models.values() for route in model.routes)
        return list(
            dict.fromkeys(one.upstream_model for one in routes if one.provider == provider.name)
        )

    def active_models(self) -> dict[str, Model]:
        """Return the models that are on with a provider that is, their routes cut down to such providers."""
        return {
            model.id: dataclasses.replace(model, routes=routes)
            for model in self.models.values()
            if model.off is None
            and (routes := tuple(r for r in model.routes if self.providers[r.provider].off is None))
        }
