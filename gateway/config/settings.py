"""All keys of gateway.toml: reader and default. A key without a default is required.

docs/configuration.md says what each key means; a test compares its keys and defaults with this table.
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
from gateway.money import MEDIA

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
_maybe_price = Setting(_price, None)
_rule_price = Setting(
    read.untyped,
    what="as the model's own; fees, media and a factor that it leaves out are the model's",
)
read_tool_price = read.nano_units(MAX_TOOL_PRICE)

SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "server": {
        "host": Setting(read.text, "127.0.0.1"),
        "port": Setting(read.integer(0, values.MAX_PORT), 8080),
        "max_body_mb": Setting(read.integer(1, 1024), 32),
        "max_in_flight": Setting(read.integer(1, 1_000_000), 1000),
        "drain_seconds": Setting(read.seconds(or_zero=True), 30),
        "max_bodies_mb": Setting(read.integer(1, 1_000_000), 256),
        "header_seconds": Setting(_timeout, 75),
        "body_idle_seconds": Setting(_timeout, 30),
        "body_total_seconds": Setting(_timeout, 120),
        "comment_seconds": Setting(_timeout, 15),
        "stall_seconds": Setting(_timeout, 60),
        "log": Setting(read.choice("human", "json"), "human"),
        "public_url": Setting(values.origin, None),
        "trusted_proxies": Setting(values.networks, []),
    },
    "storage": {
        "path": Setting(read.text, "gateway.db"),
        "url": Setting(secrets.secret, None),
        "retention_months": Setting(read.integer(0, _MAX_MONTHS), 0),
    },
    "billing": {
        "currency": Setting(read.matching(r"[A-Za-z]{1,12}", "a word of 1 to 12 letters"), "USD"),
        "hold_output_tokens": Setting(token_count, 1024),
        "full_hold_below": Setting(read.integer(0, 1_000_000), 10),
        "demo_credit": Setting(read.nano_units(MAX_CREDIT), None),
        "low_balance": Setting(read.nano_units(MAX_CREDIT), None),
        "top_up_text": Setting(read.text, None),
        "stripe": Setting(read.untyped, None),
    },
    "billing.stripe": CARD_SETTINGS,
    "console": {"identity_header": Setting(values.identity_header, None)},
    "limits": {
        "requests_per_minute": Setting(_count, 600),
        "tokens_per_minute": Setting(_count, 0),
        "concurrency": Setting(_count, 50),
        "account_in_flight": Setting(_count, None),
    },
    "metrics": {"listen": Setting(values.address, None)},
    "alerts": {
        "webhook": Setting(secrets.secret, None),
        "webhook_secret": Setting(secrets.secret, None),
        "command": Setting(values.words, []),
        "holder_webhooks": Setting(read.choice("public", "any", "off"), "public"),
        "backup_days": Setting(read.integer(0, 3650), 0),
    },
    "providers.NAME": {
        "dialect": Setting(
            read.choice(*DIALECTS),
            what="the API it speaks: chat (OpenAI's), responses (OpenAI's newer one), messages (Anthropic's),"
            " vertex (Anthropic's at Google) or demo (built in)",
        ),
        "base_url": Setting(
            values.base_url, None, what="the address up to and including /v1; leave out for demo"
        ),
        "api_key": Setting(secrets.provider_keys, None),
        "api_key_refresh": Setting(values.duration, "50m"),
        "connect_timeout": Setting(_timeout, 5),
        "first_byte_timeout": Setting(_timeout, 600),
        "idle_timeout": Setting(_timeout, 300),
        "total_timeout": Setting(_timeout, 3600),
        "max_concurrency": Setting(_count, 0),
        "on_disconnect": Setting(read.choice("abort", "drain"), "drain"),
        "stream_usage": Setting(read.boolean, default=True),
        "max_tokens_field": Setting(read.choice(*get_args(MaxTokensField)), None),
        "takes": Setting(values.names(get_args(Taken)), []),
        "history": Setting(read.choice(*get_args(History)), None),
        "pass_headers": Setting(values.header_names, []),
        "leading_system": Setting(read.boolean, default=False),
        "embeddings_base64": Setting(read.boolean, default=True),
        "headers": Setting(values.headers, {}),
        "proxy": Setting(secrets.secret, None),
    },
    "models.ID": {
        "owned_by": Setting(read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"), None),
        "kind": Setting(read.choice(*get_args(ModelKind)), "chat"),
        "aliases": Setting(values.aliases, []),
        "routes": Setting(
            values.routes, what='an array of "provider/upstream model", tried in order'
        ),
        "max_output_tokens": Setting(token_count, None),
        "max_input_tokens": Setting(token_count, 2_000_000),
        "reasoning": Setting(read.choice(*get_args(Reasoning)), None),
        "leave_out": Setting(values.names(values.SAMPLING), []),
        "created": Setting(read.integer(0, 2**40), 0),
        "price": Setting(
            read.untyped, None, what='a table of prices per million tokens, or "free"; required'
        ),
        "price_image": Setting(read.untyped, None),
        "price_when": Setting(read.untyped, []),
        "tool_prices": Setting(read.untyped, {}),
        "cost": Setting(read.untyped, None),
        "cost_when": Setting(read.untyped, []),
        "tool_costs": Setting(read.untyped, {}),
        "allow": Setting(values.names(BILLED_NAMES), []),
    },
    "models.ID.price": {
        "input": Setting(
            _price, None, what="the price of a million input tokens; rerank needs none"
        ),
        **dict.fromkeys(("cached_input", "cache_write", "cache_write_1h"), _maybe_price),
        "output": Setting(
            _price, None, what="the price of a million output tokens; needed where it makes some"
        ),
        "minute": Setting(
            _price, None, what="of a minute of audio to transcribe, in place of `input`"
        ),
        **dict.fromkeys(("request", "search_unit", "web_search", *MEDIA), _maybe_price),
        "reported": Setting(read.factor(MAX_FACTOR), None),
    },
    "models.ID.price_image": {
        "size": Setting(read.matching(r"[0-9]{1,5}x[0-9]{1,5}", "such as 1024x1024"), None),
        "quality": Setting(read.matching(r"[a-z]{1,16}", "a lowercase word"), None),
        "price": Setting(_price, what="the price of one image"),
    },
    "models.ID.price_when": {**values.CONDITIONS, "price": _rule_price},
    "models.ID.cost_when": {
        "provider": Setting(read.text, None),
        **values.CONDITIONS,
        "cost": _rule_price,
    },
}
