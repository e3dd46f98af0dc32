"""Every key of gateway.toml: how it is read, what it means, what it defaults to.

A key without a default must be written. README's configuration reference is held to this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway import config_reader as read
from gateway import config_values as values
from gateway.config_reader import Setting

MAX_PRICE: Final = 1_000_000
"""Per million tokens. With `usage.MAX_PLAUSIBLE_TOKENS` every cost is within SQLite's integers."""
MAX_TOKENS: Final = 100_000_000
MAX_CREDIT: Final = 1_000_000_000
_MAX_COUNT: Final = 1_000_000_000

_timeout = read.seconds()
_count = read.integer(0, _MAX_COUNT)
_tokens = read.integer(1, MAX_TOKENS)
_price = read.nano_units(MAX_PRICE)

SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "server": {
        "host": Setting(read.text, "the address it listens on", "127.0.0.1"),
        "port": Setting(read.integer(0, 65535), "the port; 0 = any free one", 8080),
        "max_body_mb": Setting(read.integer(1, 1024), "the largest request body, in MiB", 32),
        "max_in_flight": Setting(
            read.integer(1, 1_000_000), "requests at once; above: 503 and Retry-After", 1000
        ),
        "drain_seconds": Setting(
            read.seconds(or_zero=True), "what requests in flight get to end when it is stopped", 30
        ),
        "max_bodies_mb": Setting(
            read.integer(1, 1_000_000), "request bodies held at once, in MiB; above: 503", 256
        ),
        "header_seconds": Setting(
            _timeout, "time for a whole request head, and for the next one to begin", 75
        ),
        "body_idle_seconds": Setting(_timeout, "silence in a request body before a 408", 30),
        "body_total_seconds": Setting(_timeout, "time for a whole request body before a 408", 120),
        "comment_seconds": Setting(
            _timeout, "silence in a stream before the gateway sends a keep-alive comment", 15
        ),
        "stall_seconds": Setting(
            _timeout, "how long a caller may take no bytes before it is given up", 60
        ),
        "log": Setting(
            read.choice("human", "json"), "the line that is logged for each request", "human"
        ),
        "public_url": Setting(
            values.origin,
            'where people reach it, such as "https://llm.example.com"; needed behind a TLS proxy:'
            " with https the console's cookies are for https alone",
            None,
        ),
        "trusted_proxies": Setting(
            values.networks,
            "addresses or networks of proxies whose X-Forwarded-For is believed",
            [],
        ),
    },
    "storage": {
        "path": Setting(read.text, "the database, relative to this file", "gateway.db"),
    },
    "billing": {
        "currency": Setting(
            read.matching(r"[A-Za-z]{1,12}", "a word of 1 to 12 letters"),
            "what prices and balances are in; a label, nothing is converted",
            "USD",
        ),
        "hold_output_tokens": Setting(
            _tokens, "output tokens a hold reckons with when max_tokens is larger or absent", 1024
        ),
        "demo_credit": Setting(
            read.nano_units(MAX_CREDIT),
            "what the account of a first start gets; leave out for none",
            None,
        ),
        "low_balance": Setting(
            read.nano_units(MAX_CREDIT),
            "below this balance the console shows a notice; leave out for none",
            None,
        ),
        "top_up_text": Setting(
            read.text, "how to get credit, in your words, shown in the console", None
        ),
    },
    "limits": {
        "requests_per_minute": Setting(_count, "of a key that has none of its own; 0 = none", 600),
        "tokens_per_minute": Setting(_count, "of a key that has none of its own; 0 = none", 0),
        "concurrency": Setting(_count, "requests at once of a key without its own; 0 = none", 50),
    },
    "providers.NAME": {
        "dialect": Setting(
            read.choice("chat", "messages", "demo"),
            "the wire it speaks: chat (OpenAI's), messages (Anthropic's) or demo (built in)",
        ),
        "base_url": Setting(
            values.base_url, "where it is, up to and including /v1; none for demo", None
        ),
        "api_key": Setting(
            values.api_key,
            "env:NAME, file:PATH or the key itself; leave out for a server that asks for none",
            None,
        ),
        "connect_timeout": Setting(_timeout, "seconds to connect", 5),
        "first_byte_timeout": Setting(_timeout, "seconds until the first byte of a reply", 600),
        "idle_timeout": Setting(_timeout, "seconds of silence within a reply", 300),
        "total_timeout": Setting(_timeout, "seconds for all of it", 3600),
        "max_concurrency": Setting(_count, "requests at once to this provider; 0 = no limit", 0),
        "on_disconnect": Setting(
            read.choice("abort", "drain"),
            "when the caller of a stream leaves: abort it, or drain it to its end",
            "abort",
        ),
        "stream_usage": Setting(
            read.boolean, "ask the upstream for usage in streams", default=True
        ),
        "max_tokens_field": Setting(
            read.choice("max_tokens", "max_completion_tokens"),
            "what a chat provider calls the limit when a messages request is translated",
            "max_tokens",
        ),
        "headers": Setting(values.headers, "extra request headers", {}),
    },
    "models.ID": {
        "owned_by": Setting(
            read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"),
            "the originating provider in the models list; default: the first route's provider",
            None,
        ),
        "routes": Setting(values.routes, 'an array of "provider/upstream model", tried in order'),
        "max_output_tokens": Setting(_tokens, "the most it can write", 128_000),
        "max_input_tokens": Setting(_tokens, "the most it can read", 2_000_000),
        "reasoning": Setting(
            read.choice("effort", "budget", "none"),
            "how it takes a reasoning effort translated from the other dialect; default: effort at"
            " messages providers, none (left out) at chat providers",
            None,
        ),
        "created": Setting(read.integer(0, 2**40), "Unix seconds; 0 = unknown", 0),
        "price": Setting(read.untyped, 'a table of prices per million tokens, or "free"'),
    },
    "models.ID.price": {
        "input": Setting(_price, "the price of a million input tokens"),
        "cached_input": Setting(_price, "of input read from a cache; default: input", None),
        "cache_write": Setting(_price, "of input written to a cache; default: input", None),
        "output": Setting(_price, "the price of a million output tokens"),
        "request": Setting(_price, "the price of a request, beside its tokens", 0),
    },
}
