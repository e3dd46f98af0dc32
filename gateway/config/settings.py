"""All keys of gateway.toml: reader, meaning and default.

A key without a default is required. A test compares the reference in docs/configuration.md with this
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from gateway.config import reader as read
from gateway.config import secrets, values
from gateway.config.cards import CARD_SETTINGS
from gateway.config.reader import Setting
from gateway.dialects.records import DIALECTS, History, MaxTokensField, ModelKind, Reasoning, Taken
from gateway.dialects.wire.billed import BILLED_NAMES

MAX_CREDIT: Final = 1_000_000_000
"""Units of currency, the most that the ledger takes at once."""
_MAX_COUNT: Final = 1_000_000_000
"""The largest limit. More is taken for a typing error; write 0 for unlimited."""
_MAX_MONTHS: Final = 1200
"""The longest retention, a century."""
MAX_PRICE: Final = 1_000_000_000_000
"""Units per million tokens: enough for currencies of which a dollar is many thousands."""
MAX_TOOL_PRICE: Final = 1_000_000
"""Units per call of a tool."""
MAX_FACTOR: Final = 1000
"""The largest factor on a provider's bill."""

_timeout = read.seconds()
_count = read.integer(0, _MAX_COUNT)
token_count = read.integer(1, values.MAX_TOKENS)
_price = read.nano_units(MAX_PRICE)
read_tool_price = read.nano_units(MAX_TOOL_PRICE)

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
            values.networks, "addresses or networks of proxies whose X-Forwarded-For is trusted", []
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
        "stripe": Setting(read.untyped, "a table: credit is sold by card", None),
    },
    "billing.stripe": CARD_SETTINGS,
    "console": {
        "identity_header": Setting(
            values.identity_header,
            "the header in which a proxy of trusted_proxies names the account that it has signed in,"
            ' such as "Remote-User"; it counts in requests for the host of public_url',
            None,
        )
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
        )
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
            read.choice(*DIALECTS),
            "the API it speaks: chat (OpenAI's), responses (OpenAI's newer one), messages (Anthropic's),"
            " vertex (Anthropic's at Google) or demo (built in)",
        ),
        "base_url": Setting(
            values.base_url, "the address up to and including /v1; leave out for demo", None
        ),
        "api_key": Setting(
            secrets.provider_keys,
            "env:NAME, file:PATH (read again when it changes), command:PROGRAM ARGUMENT ... (prints a"
            " key that ends) or the key itself, or an array of several; leave out where none is needed",
            None,
        ),
        "api_key_refresh": Setting(
            values.duration, "how often a command is run that does not say when its key ends", "50m"
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
    "models.ID": {
        "owned_by": Setting(
            read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"),
            "its owner in the models list; default: the first route's provider",
            None,
        ),
        "kind": Setting(
            read.choice(*get_args(ModelKind)),
            "chat, or what is served on one other path: completion, image, rerank, embedding (whose"
            " routes name one upstream model, as vectors of two do not mix) or audio (which speaks; with"
            " a price of a minute or of output it transcribes); of providers of dialect chat or responses",
            "chat",
        ),
        "aliases": Setting(
            values.aliases,
            "other names that callers may use; a name with a date or `-latest` behind it, such as"
            " `ID-20251001` or `ID-2026-03-05`, needs none",
            [],
        ),
        "routes": Setting(values.routes, 'an array of "provider/upstream model", tried in order'),
        "max_output_tokens": Setting(
            token_count,
            "the most tokens it can write; required with a messages provider, which refuses a"
            " request for more than its model can; default for others: 128000; leave out for"
            " embeddings",
            None,
        ),
        "max_input_tokens": Setting(
            token_count, "the most tokens it can read, of embeddings: in each input", 2_000_000
        ),
        "reasoning": Setting(
            read.choice(*get_args(Reasoning)),
            "how a reasoning effort is translated from the other dialect; default: effort for"
            " messages providers, none (left out) for chat providers",
            None,
        ),
        "leave_out": Setting(
            values.names(values.SAMPLING),
            "fields that the model refuses: a caller's are left out",
            [],
        ),
        "created": Setting(read.integer(0, 2**40), "Unix seconds; 0 = unknown", 0),
        "price": Setting(
            read.untyped, 'a table of prices per million tokens, or "free"; required', None
        ),
        "price_image": Setting(
            read.untyped,
            "in place of `price`, by the image: an array of { size, quality, price }; left out is any",
            None,
        ),
        "price_when": Setting(read.untyped, "rules: prices under conditions", []),
        "tool_prices": Setting(
            read.untyped,
            "the price of each call of a tool that its providers run, by the tool's name",
            {},
        ),
        "cost": Setting(
            read.untyped,
            'what its providers bill you: a table like `price`, or "free"; usage then shows margins',
            None,
        ),
        "cost_when": Setting(read.untyped, "rules: costs of a provider, or under conditions", []),
        "tool_costs": Setting(
            read.untyped, "what its providers bill you for each call of such a tool", {}
        ),
        "allow": Setting(
            values.names(BILLED_NAMES),
            "what callers may send although it has no price here and may change the bill",
            [],
        ),
    },
    "models.ID.price": {
        "input": Setting(_price, "the price of a million input tokens; rerank needs none", None),
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
            _price, "the price of a million output tokens; needed where it makes some", None
        ),
        "minute": Setting(_price, "of a minute of audio to transcribe, in place of `input`", None),
        "request": Setting(_price, "the price of a request, beside its tokens; default: 0", None),
        "search_unit": Setting(_price, "the price of a search unit, as Cohere counts them", None),
        "web_search": Setting(
            _price, "the price of a thousand web searches; without it they are refused", None
        ),
        "audio_input": Setting(
            _price, "the price of a million audio tokens; without it recordings are refused", None
        ),
        "image_input": Setting(
            _price, "the price of a million image tokens, where they are told; default: input", None
        ),
        "audio_output": Setting(
            _price, "the same of audio that it makes; without it that is refused", None
        ),
        "image_output": Setting(
            _price, "the same of images that it makes; without it they are refused", None
        ),
        "reported": Setting(
            read.factor(MAX_FACTOR),
            "a factor on what the provider says it charged, such as 1.2; the prices beside it are"
            " for holds, and for replies where it does not say",
            None,
        ),
    },
    "models.ID.price_image": {
        "size": Setting(
            read.matching(r"[0-9]{1,5}x[0-9]{1,5}", "such as 1024x1024"), "its size", None
        ),
        "quality": Setting(read.matching(r"[a-z]{1,16}", "a lowercase word"), "its quality", None),
        "price": Setting(_price, "the price of one image"),
    },
    "models.ID.price_when": {
        **values.CONDITIONS,
        "price": Setting(
            read.untyped,
            "as the model's own; fees, media and a factor that it leaves out are the model's",
        ),
    },
    "models.ID.cost_when": {
        "provider": Setting(read.text, "the provider of one of the model's routes", None),
        **values.CONDITIONS,
        "cost": Setting(
            read.untyped,
            "as the model's own; fees, media and a factor that it leaves out are the model's",
        ),
    },
}
