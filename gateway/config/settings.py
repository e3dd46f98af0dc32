"""All keys of gateway.toml: reader, meaning and default.

A key without a default is required. A test compares the reference in docs/configuration.md with this
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from gateway.config import reader as read
from gateway.config import secrets, values
from gateway.config.model_settings import MODEL_SETTINGS, token_count
from gateway.config.reader import Setting
from gateway.dialects.exchanges import UPSTREAMS
from gateway.dialects.records import History, MaxTokensField, Taken

MAX_CREDIT: Final = 1_000_000_000
"""Units of currency, the most that the ledger takes at once."""
_MAX_COUNT: Final = 1_000_000_000
"""The largest limit. More is taken for a typing error; write 0 for unlimited."""
_MAX_MONTHS: Final = 1200
"""The longest retention, a century."""

_timeout = read.seconds()
_count = read.integer(0, _MAX_COUNT)
SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "server": {
        "host": Setting(read.text, "the address to listen on", "127.0.0.1"),
        "port": Setting(
            read.integer(0, values.MAX_PORT), "the port to listen on; 0 = any free port", 8080
        ),
        "max_body_mb": Setting(read.integer(1, 1024), "the largest request body, in MiB", 32),
        "max_in_flight": Setting(
            read.integer(1, 1_000_000), "requests in flight; above it: 503 with Retry-After", 1000
        ),
        "drain_seconds": Setting(
            read.seconds(or_zero=True), "time for requests in flight to end during a stop", 30
        ),
        "max_bodies_mb": Setting(
            read.integer(1, 1_000_000),
            "request bodies, and replies not yet read, in memory, in MiB; an account has half of it",
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
        "url": Setting(
            secrets.secret,
            "instead of `path`: a database of PostgreSQL, which several gateways may share; env:NAME,"
            ' file:PATH or "postgresql://user:password@host:port/name" itself',
            None,
        ),
        "retention_months": Setting(
            read.integer(0, _MAX_MONTHS),
            "months, this one included, for which PostgreSQL keeps requests, 2 or more; entries stay;"
            " 0 = keep all",
            0,
        ),
    },
    "billing": {
        "currency": Setting(
            read.matching(r"[A-Za-z]{1,12}", "a word of 1 to 12 letters"),
            "the currency of prices and balances; a label, nothing is converted",
            "USD",
        ),
        "hold_output_tokens": Setting(
            token_count, "output tokens that a hold covers if max_tokens is larger or absent", 1024
        ),
        "full_hold_below": Setting(
            read.integer(0, 1_000_000),
            "while less is left than so many times the most that a request may cost, its hold is for"
            " all of that; 0 = never, and what requests may cost beyond their holds does not count",
            10,
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
    "console": {
        "identity_header": Setting(
            values.identity_header,
            "the header in which a proxy of trusted_proxies names the account that it has signed in,"
            ' such as "Remote-User"; it counts in requests for the host of public_url',
            None,
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
    "metrics": {
        "listen": Setting(
            values.address,
            'the address of GET /metrics for Prometheus, such as "127.0.0.1:9090"; it asks for no'
            " password",
            None,
        ),
    },
    "alerts": {
        "webhook": Setting(
            secrets.secret,
            "the address that alerts are posted to, env:NAME or file:PATH; without a webhook and a"
            " command there are no alerts",
            None,
        ),
        "webhook_secret": Setting(
            secrets.secret,
            "signs what is posted: env:NAME, file:PATH or the secret itself; required with webhook",
            None,
        ),
        "command": Setting(
            values.words,
            'a program and its arguments, such as ["/usr/local/bin/page", "ops"]: it gets an alert'
            " as JSON on its standard input",
            [],
        ),
        "holder_webhooks": Setting(
            read.choice("public", "any", "off"),
            "webhooks that holders name in the console, with alerts on: to public addresses by https"
            " alone, to any address, or none",
            "public",
        ),
        "backup_days": Setting(
            read.integer(0, 3650), "an alert when the last backup is older; 0 = none", 0
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
            secrets.secrets,
            "env:NAME, file:PATH or the key itself, or an array of several keys to share the requests;"
            " leave out for a server that needs none",
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
            " abort it (charge what was expected, or what was delivered if that is more)",
            "drain",
        ),
        "stream_usage": Setting(
            read.boolean, "ask the provider for usage in streams", default=True
        ),
        "max_tokens_field": Setting(
            read.choice(*get_args(MaxTokensField)),
            "a chat provider's name for the output limit of a translated request; default:"
            " max_completion_tokens at api.openai.com, max_tokens elsewhere",
            None,
        ),
        "takes": Setting(
            values.names(get_args(Taken)),
            "what a chat provider takes besides what all do: fields of OpenAI's, marks for its"
            " prompt cache, reasoning of earlier turns (`reasoning_content`, or Gemini's"
            " `thought_signature`)",
            [],
        ),
        "history": Setting(
            read.choice(*get_args(History)),
            "the earlier turns that a chat provider takes: any, or as openai or mistral make them:"
            " ids of calls of at most 40 characters, or of 9 letters and digits, and no members of"
            " other vendors; default: openai at api.openai.com, any elsewhere",
            None,
        ),
        "pass_headers": Setting(
            values.header_names,
            'headers of callers that go on to it, such as ["x-grok-conv-id"]',
            [],
        ),
        "leading_system": Setting(
            read.boolean,
            "it takes no system messages within a conversation: those of callers of other dialects"
            " move to its beginning",
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
            secrets.secret,
            'an HTTP proxy that connects to it (CONNECT): "http://[user:password@]host:port",'
            " env:NAME or file:PATH",
            None,
        ),
    },
    **MODEL_SETTINGS,
}
