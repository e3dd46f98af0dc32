"""The keys of models in gateway.toml, and of their prices. `settings` has all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from gateway.config import reader as read
from gateway.config import values
from gateway.config.reader import Setting
from gateway.dialects.records import ModelKind, Reasoning
from gateway.dialects.wire.billed import BILLED_NAMES
from gateway.price_windows import read_date, read_hours, read_weekdays

SAMPLING: Final = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "parallel_tool_calls",
        "presence_penalty",
        "seed",
        "stop",
        "stop_sequences",
        "temperature",
        "top_k",
        "top_logprobs",
        "top_p",
    }
)
"""Fields that a model's `leave_out` can name."""
MAX_PRICE: Final = 1_000_000_000_000
"""Units per million tokens: enough for currencies of which a dollar is many thousands."""
MAX_TOOL_PRICE: Final = 1_000_000
"""Units per call of a tool."""
MAX_FACTOR: Final = 1000
"""The largest factor on a provider's bill."""
MAX_TOKENS: Final = 100_000_000
"""Tokens of a model's input or output, fifty times the largest model of today."""

token_count = read.integer(1, MAX_TOKENS)
_price = read.nano_units(MAX_PRICE)
read_tool_price = read.nano_units(MAX_TOOL_PRICE)
_word = read.matching(r"[A-Za-z0-9_.-]{1,40}", "a word")
_CONDITIONS: Final = {
    "input_above": Setting(
        read.integer(0, MAX_TOKENS), "more tokens of input than this, cached ones too", None
    ),
    "service_tier": Setting(values.service_tier, 'the tier, such as "priority"', None),
    "speed": Setting(_word, 'the speed, such as "fast"', None),
    "inference_geo": Setting(_word, 'the region, such as "us"', None),
    "hours": Setting(read_hours, 'hours in UTC, such as "01:00-04:00", or an array of them', None),
    "weekdays": Setting(read_weekdays, 'days in UTC, such as "sat" or "mon-fri"', None),
    "from": Setting(read_date, "the first day, such as 2026-08-01, or a time, in UTC", None),
    "until": Setting(read_date, "the day, or the time, from which on it does not apply", None),
}
"""The conditions of a rule."""

MODEL_SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "models.ID": {
        "owned_by": Setting(
            read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"),
            "its owner in the models list; default: the first route's provider",
            None,
        ),
        "kind": Setting(
            read.choice(*get_args(ModelKind)),
            "chat, or embedding: a model for /v1/embeddings, of chat or responses providers or the"
            " demo; its routes name one upstream model, as vectors of two models do not mix",
            "chat",
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
            values.names(SAMPLING),
            "fields that the model refuses: a caller's are left out",
            [],
        ),
        "created": Setting(read.integer(0, 2**40), "Unix seconds; 0 = unknown", 0),
        "price": Setting(read.untyped, 'a table of prices per million tokens, or "free"'),
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
    "models.ID.price_when": {
        **_CONDITIONS,
        "price": Setting(
            read.untyped,
            "as the model's own; fees, media and a factor that it leaves out are the model's",
        ),
    },
    "models.ID.cost_when": {
        "provider": Setting(read.text, "the provider of one of the model's routes", None),
        **_CONDITIONS,
        "cost": Setting(
            read.untyped,
            "as the model's own; fees, media and a factor that it leaves out are the model's",
        ),
    },
}
