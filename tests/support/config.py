"""The gateway.toml of the test gateways, with scripted providers.

The breaker shuts off a provider that fails repeatedly, so every test that plays faults takes a
model that no other test uses: the shared configuration has a row of models of each kind.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.support.chat import EMBEDDING_PRICE_TOML, MAX_OUTPUT_TOKENS, PRICE_TOML

UPSTREAM_NAME: Final = "up-model"
"""The provider's name of the model, which no caller may ever see."""
BRISK_SECONDS: Final = 0.4
"""Time-outs of the providers that play hanging upstreams."""
CONNECT_SECONDS: Final = 0.3
TOTAL_SECONDS: Final = 1.2
MAX_BODY_MB: Final = 1

PATIENT: Final = "connect_timeout = 2\nfirst_byte_timeout = 20\nidle_timeout = 20"
BRISK: Final = (
    f"connect_timeout = {CONNECT_SECONDS}\nfirst_byte_timeout = {BRISK_SECONDS}\n"
    f"idle_timeout = {BRISK_SECONDS}\ntotal_timeout = {TOTAL_SECONDS}\n"
    'on_disconnect = "abort"'
)
HASTY: Final = (
    f"connect_timeout = 2\nfirst_byte_timeout = {TOTAL_SECONDS}\nidle_timeout = {TOTAL_SECONDS}\n"
    "total_timeout = 0.5"
)
"""The total deadline comes first."""


Dialect = Literal["chat", "messages", "responses", "demo"]
CHAT_THEN_MESSAGES: Final[tuple[Dialect, ...]] = ("chat", "messages")
MESSAGES_THEN_CHAT: Final[tuple[Dialect, ...]] = ("messages", "chat")


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


COMPLETES: Final = 'kind = "completion"'
EMBEDS: Final = f'kind = "embedding"\nprice = {EMBEDDING_PRICE_TOML}'
SPEAKS: Final = f'kind = "audio"\nprice = {EMBEDDING_PRICE_TOML}'
HEARS: Final = 'kind = "audio"\nprice = { minute = 0.006 }'
HEARS_TOKENS: Final = 'kind = "audio"\nprice = { input = 2.50, output = 10, audio_input = 6 }'
RANKS: Final = 'kind = "rerank"\nprice = { search_unit = 0.002 }'
DRAWS: Final = """kind = "image"
price_image = [
  { size = "1024x1024", quality = "high", price = 0.17 }, { size = "1024x1024", price = 0.01 }
]"""


PRICE: Final = (
    "{ input = 1.00, cached_input = 0.10, cache_write = 1.25, cache_write_1h = 2.00, output = 5.00"
)
BASE: Final = PRICE + ", web_search = 10.00 }"
MEDIA: Final = (
    PRICE
    + ", audio_input = 30.00, image_input = 3.00, audio_output = 60.00, image_output = 40.00 }"
)
BILLED: Final = "{ reported = 1.2, input = 1.00, output = 5.00, request = 0.01 }"
TOOLS: Final = "tool_prices = { file_search = 0.0025, x_search = 0.005, google_maps = 0.025 }"
RULES: Final = """
price_when = [
    { service_tier = "priority", price = { input = 2.00, output = 4.00 } },
    { speed = "fast", price = { input = 6.00, output = 9.00 } },
    { input_above = 5000, price = { input = 1.00, output = 3.00, web_search = 20.00 } },
]
"""
COST: Final = """
cost = { input = 0.10, output = 0.30 }
cost_when = [{ service_tier = "priority", cost = { input = 1, output = 3 } }]
price_when = [{ service_tier = "priority", price = { input = 2, output = 4 } }]
"""
TALKING: Final[tuple[Dialect, ...]] = ("chat", "messages", "responses")


def _price(price: str, dialect: Dialect = "chat", options: str = "") -> Kind:
    return Kind(("alpha",), 1, PATIENT, (dialect,), options, price=price)


KINDS: Final[dict[str, Kind]] = {
    "plain": Kind(("alpha",), 700),
    "brisk": Kind(("alpha",), 700, BRISK),
    "pair": Kind(("alpha", "beta"), 60, BRISK),
    "refused": Kind(("refused",), 4, BRISK),
    "refused-pair": Kind(("refused", "beta"), 4, BRISK),
    "nameless": Kind(("nameless",), 2, BRISK),
    "black-hole": Kind(("black-hole",), 2, BRISK),
    "tls": Kind(("tls",), 2, BRISK),
    "drain": Kind(("alpha",), 48, PATIENT),
    "hasty": Kind(("alpha",), 16, HASTY),
    "abort": Kind(("alpha",), 80, PATIENT + '\non_disconnect = "abort"'),
    "no-usage": Kind(("alpha",), 6, PATIENT + "\nstream_usage = false"),
    "messages": Kind(("alpha",), 450, dialects=("messages",)),
    "responses": Kind(("alpha",), 450, dialects=("responses",)),
    "messages-brisk": Kind(("alpha",), 24, BRISK, ("messages",)),
    "refused-messages": Kind(("refused",), 4, BRISK, ("messages",)),
    "chat-then-messages": Kind(("alpha", "beta"), 24, BRISK, CHAT_THEN_MESSAGES),
    "messages-then-chat": Kind(("alpha", "beta"), 24, BRISK, MESSAGES_THEN_CHAT),
    "effort": Kind(
        ("alpha",),
        4,
        PATIENT + '\nmax_tokens_field = "max_completion_tokens"\npass_headers = ["X-Title"]',
        model_options='reasoning = "effort"\nleave_out = ["temperature"]',
    ),
    "budget": Kind(("alpha",), 4, PATIENT, ("messages",), 'reasoning = "budget"'),
    "streams": Kind(("alpha",), 1),
    "message-streams": Kind(("alpha",), 1, dialects=("messages",)),
    "demo": Kind(("demo",), 1, "", ("demo",)),
    "text": Kind(("alpha",), 12, BRISK, model_options=COMPLETES),
    "text-demo": Kind(("demo",), 1, "", ("demo",), COMPLETES),
    "image": Kind(("alpha",), 12, BRISK, makes=DRAWS),
    "image-tokens": Kind(("alpha",), 12, BRISK, model_options='kind = "image"'),
    "image-demo": Kind(("demo",), 1, "", ("demo",), makes=DRAWS),
    "rerank": Kind(("alpha",), 8, BRISK, makes=RANKS),
    "rerank-demo": Kind(("demo",), 1, "", ("demo",), makes=RANKS),
    "speech": Kind(("alpha",), 60, BRISK, makes=SPEAKS),
    "speech-pair": Kind(("alpha", "beta"), 4, BRISK, makes=SPEAKS),
    "speech-demo": Kind(("demo",), 1, "", ("demo",), makes=SPEAKS),
    "hearing": Kind(("alpha",), 24, BRISK, makes=HEARS),
    "hearing-pair": Kind(("alpha", "beta"), 8, BRISK, makes=HEARS),
    "hearing-tokens": Kind(("alpha",), 8, BRISK, makes=HEARS_TOKENS),
    "hearing-demo": Kind(("demo",), 1, "", ("demo",), makes=HEARS),
    "embed": Kind(("alpha",), 30, makes=EMBEDS),
    "embed-brisk": Kind(("alpha",), 80, BRISK, makes=EMBEDS),
    "embed-floats": Kind(("alpha",), 8, PATIENT + "\nembeddings_base64 = false", makes=EMBEDS),
    "embed-responses": Kind(("alpha",), 4, dialects=("responses",), makes=EMBEDS),
    "embed-pair": Kind(("alpha", "beta"), 8, BRISK, makes=EMBEDS),
    "embed-demo": Kind(("demo",), 1, "", ("demo",), makes=EMBEDS),
    **{f"base-{dialect}": _price(BASE, dialect) for dialect in TALKING},
    **{f"tools-{dialect}": _price(BASE, dialect, TOOLS) for dialect in TALKING},
    **{f"billed-{dialect}": _price(BILLED, dialect) for dialect in TALKING},
    "media": _price(MEDIA),
    "vast": _price("{ input = 1_000_000_000_000, output = 1_000_000_000_000 }"),
    "always": _price(
        BASE,
        options="price_when = [{ hours = '00:00-24:00', weekdays = 'mon-sun', from = 2020-01-01,"
        " price = { input = 7.00, output = 7.00 } }]",
    ),
    "over": _price(
        BASE,
        options="price_when = [{ until = 2020-01-01, price = { input = 7.00, output = 7.00 } }]",
    ),
    "ruled": _price("", options=RULES),
    "open": _price("", "messages", 'allow = ["code_execution"]'),
    "searching": _price("", "messages", 'allow = ["web_search"]\n' + RULES),
    "dear": _price(
        "",
        options="price_when = [{ input_above = 1000, price = { input = 1000.00, output = 1000.00 } }]"
        "\nmax_input_tokens = 200_000",
    ),
    "costly": _price("", options=COST),
}

NO_LIMITS: Final = "account_in_flight = 0"
"""One account stands for many callers in most tests, so it has no limit."""


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
