"""All keys of gateway.toml: reader, meaning and default.

A key without a default is required. A test compares README's configuration reference with this
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from gateway.config import reader as read
from gateway.config import values
from gateway.config.reader import Setting
from gateway.dialects import UPSTREAMS, MaxTokensField, ModelKind, Reasoning

MAX_PRICE: Final = 1_000_000
"""Units per million tokens. With `usage.MAX_PLAUSIBLE_TOKENS` each cost fits SQLite's integers."""
MAX_TOKENS: Final = 100_000_000
"""Tokens of a model's input or output, fifty times the largest model of today."""
MAX_CREDIT: Final = 1_000_000_000
"""Units of currency, the most that the ledger takes at once."""
_MAX_COUNT: Final = 1_000_000_000
"""The largest limit. More is taken for a typing error; write 0 for unlimited."""

_timeout = read.seconds()
_count = read.integer(0, _MAX_COUNT)
_tokens = read.integer(1, MAX_TOKENS)
_price = read.nano_units(MAX_PRICE)
_word = read.matching(r"[A-Za-z0-9_.-]{1,40}", "a word")

SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "server": {
        "host": Setting(read.text, "the address to listen on", "127.0.0.1"),
        "port": Setting(read.integer(0, 65535), "the port to listen on; 0 = any free port", 8080),
        "max_body_mb": Setting(read.integer(1, 1024), "the largest request body, in MiB", 32),
        "max_in_flight": Setting(
            read.integer(1, 1_000_000), "requests in flight; above it: 503 with Retry-After", 1000
        ),
        "drain_seconds": Setting(
            read.seconds(or_zero=True), "time for requests in flight to end during a stop", 30
        ),
        "max_bodies_mb": Setting(
            read.integer(1, 1_000_000),
            "request bodies, and replies not yet read, in memory, in MiB; above it: 503",
            256,
        ),
        "header_seconds": Setting(
            _timeout, "time for a whole request head, and keep-alive time between requests", 75
        ),
        "body_idle_seconds": Setting(_timeout, "pause in a request body before a 408", 30),
        "body_total_seconds": Setting(_timeout, "time for a whole request body before a 408", 120),
        "comment_seconds": Setting(
            _timeout, "pause in a stream before the gateway sends a keep-alive comment", 15
        ),
        "stall_seconds": Setting(
            _timeout, "time in which a caller reads no bytes before the connection is aborted", 60
        ),
        "log": Setting(
            read.choice("human", "json"), "the format of the log line of each request", "human"
        ),
        "public_url": Setting(
            values.origin,
            'the address people use, such as "https://llm.example.com"; required behind a TLS'
            " proxy: with https the console's cookies are sent over https only",
            None,
        ),
        "trusted_proxies": Setting(
            values.networks,
            "addresses or networks of proxies whose X-Forwarded-For is trusted",
            [],
        ),
    },
    "storage": {
        "path": Setting(read.text, "the database, relative to this file", "gateway.db"),
    },
    "billing": {
        "currency": Setting(
            read.matching(r"[A-Za-z]{1,12}", "a word of 1 to 12 letters"),
            "the currency of prices and balances; a label, nothing is converted",
            "USD",
        ),
        "hold_output_tokens": Setting(
            _tokens, "output tokens that a hold covers if max_tokens is larger or absent", 1024
        ),
        "demo_credit": Setting(
            read.nano_units(MAX_CREDIT),
            "credit of each account made at the first start; leave out to make none",
            None,
        ),
        "low_balance": Setting(
            read.nano_units(MAX_CREDIT),
            "the console shows a notice below this balance; leave out for no notice",
            None,
        ),
        "top_up_text": Setting(
            read.text, "text of yours on how to get credit, shown in the console", None
        ),
    },
    "limits": {
        "requests_per_minute": Setting(
            _count, "default for keys without a limit of their own; 0 = unlimited", 600
        ),
        "tokens_per_minute": Setting(
            _count, "default for keys without a limit of their own; 0 = unlimited", 0
        ),
        "concurrency": Setting(
            _count, "requests in flight, for keys without a limit of their own; 0 = unlimited", 50
        ),
        "account_in_flight": Setting(
            _count,
            "requests in flight of one account, if it has no limit of its own; 0 = unlimited;"
            " default: half of max_in_flight",
            None,
        ),
    },
    "providers.NAME": {
        "dialect": Setting(
            read.choice(*UPSTREAMS),
            "the API it speaks: chat (OpenAI's), responses (OpenAI's newer one), messages (Anthropic's)"
            " or demo (built in)",
        ),
        "base_url": Setting(
            values.base_url, "the address up to and including /v1; leave out for demo", None
        ),
        "api_key": Setting(
            values.secret,
            "env:NAME, file:PATH or the key itself; leave out for a server that needs none",
            None,
        ),
        "connect_timeout": Setting(_timeout, "seconds to connect", 5),
        "first_byte_timeout": Setting(_timeout, "seconds until the first byte of a reply", 600),
        "idle_timeout": Setting(_timeout, "seconds without a byte within a reply", 300),
        "total_timeout": Setting(_timeout, "seconds for the whole exchange", 3600),
        "max_concurrency": Setting(_count, "requests in flight to it; 0 = unlimited", 0),
        "on_disconnect": Setting(
            read.choice("abort", "drain"),
            "when the caller of a stream leaves: drain it (read it to its end and charge that), or"
            " abort it (charge what was held, or what was delivered if that is more)",
            "drain",
        ),
        "stream_usage": Setting(
            read.boolean, "ask the provider for usage in streams", default=True
        ),
        "max_tokens_field": Setting(
            read.choice(*get_args(MaxTokensField)),
            "a chat provider's name for the output limit of a translated messages request",
            "max_tokens",
        ),
        "leading_system": Setting(
            read.boolean,
            "a messages provider takes no system messages within a conversation: those of chat"
            " callers move to its beginning",
            default=False,
        ),
        "embeddings_base64": Setting(
            read.boolean,
            "it can write embeddings as base64; if not, they are asked for as floats, and converted"
            " for callers who want base64, as SDKs do by default",
            default=True,
        ),
        "headers": Setting(values.headers, "extra request headers", {}),
        "proxy": Setting(
            values.secret,
            'an HTTP proxy that connects to it (CONNECT): "http://[user:password@]host:port",'
            " env:NAME or file:PATH",
            None,
        ),
    },
    "models.ID": {
        "owned_by": Setting(
            read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"),
            "its owner in the models list; default: the first route's provider",
            None,
        ),
        "kind": Setting(
            read.choice(*get_args(ModelKind)),
            "chat, or embedding: a model for /v1/embeddings, of chat providers or the demo; its"
            " routes name one upstream model, as vectors of two models do not mix",
            "chat",
        ),
        "routes": Setting(values.routes, 'an array of "provider/upstream model", tried in order'),
        "max_output_tokens": Setting(
            _tokens,
            "the most tokens it can write; required with a messages provider, which refuses a"
            " request for more than its model can; default for others: 128000; leave out for"
            " embeddings",
            None,
        ),
        "max_input_tokens": Setting(
            _tokens, "the most tokens it can read, of embeddings: in each input", 2_000_000
        ),
        "reasoning": Setting(
            read.choice(*get_args(Reasoning)),
            "how a reasoning effort is translated from the other dialect; default: effort for"
            " messages providers, none (left out) for chat providers",
            None,
        ),
        "created": Setting(read.integer(0, 2**40), "Unix seconds; 0 = unknown", 0),
        "price": Setting(read.untyped, 'a table of prices per million tokens, or "free"'),
        "price_when": Setting(read.untyped, "rules: prices under conditions", []),
        "allow": Setting(
            values.billed_names,
            "what callers may send although it has no price here and may change the bill",
            [],
        ),
    },
    "models.ID.price": {
        "input": Setting(_price, "the price of a million input tokens"),
        "cached_input": Setting(
            _price, "the price of a million input tokens read from a cache; default: input", None
        ),
        "cache_write": Setting(
            _price, "the price of a million input tokens written to a cache; default: input", None
        ),
        "cache_write_1h": Setting(
            _price,
            "the price of a million input tokens written to a cache for an hour;"
            " default: 1.6 × cache_write",
            None,
        ),
        "output": Setting(
            _price, "the price of a million output tokens; required but for embeddings", None
        ),
        "request": Setting(
            _price, "the price of a request, in addition to its tokens; default: 0", None
        ),
        "web_search": Setting(
            _price, "the price of a thousand web searches; without it they are refused", None
        ),
    },
    "models.ID.price_when": {
        "input_above": Setting(
            read.integer(0, MAX_TOKENS), "more tokens of input than this, cached ones too", None
        ),
        "service_tier": Setting(values.service_tier, 'the tier, such as "priority"', None),
        "speed": Setting(_word, 'the speed, such as "fast"', None),
        "inference_geo": Setting(_word, 'the region, such as "us"', None),
        "price": Setting(
            read.untyped,
            "as the model's own; `request` and `web_search` default to those of the model",
        ),
    },
}
