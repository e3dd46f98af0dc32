"""All keys of gateway.toml: reader and default. A key without a default is required.

A key that becomes a record's field as it is has both beside that field, in `records`.

docs/configuration.md says what each key means; a test compares its keys and defaults with this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from gateway.base.money import MEDIA
from gateway.config import records, secrets, values
from gateway.config import scalars as read
from gateway.config.reader import Setting
from gateway.dialects.wire.billed import BILLED_NAMES
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extension import find_dialects, find_kinds

MAX_PRICE: Final = 1_000_000_000_000
"""Units per million tokens: enough for currencies of which a dollar is many thousands."""
MAX_TOOL_PRICE: Final = 1_000_000
"""Units per call of a tool: calls cost cents, so more is a typing error in any currency."""
MAX_FACTOR: Final = 1000
"""The largest factor on a provider's bill: resellers add some percent, so more is a typing error."""

_price = partial(Setting, read.nano_units(MAX_PRICE), subject="price")
_rule_price = Setting(
    read.untyped,
    what="written like the model's own; fees, prices of media and a factor that it leaves out are the model's",
)
read_tool_price = read.nano_units(MAX_TOOL_PRICE)


ALLOWED: Final = BILLED_NAMES.union(*(one.allows for one in find_kinds().values()))
_DIALECTS: Final = [f"{name} ({one.what})" for name, one in find_dialects().items()]


def _read_dialect(value: object) -> object:
    return read.choice(*find_dialects())(value)


SETTINGS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "server": records.find_settings(records.Server),
    "storage": records.find_settings(records.Storage),
    "billing": records.find_settings(records.Billing),
    "limits": {
        "requests_per_minute": Setting(records.count, 600),
        "tokens_per_minute": Setting(records.count, 0),
        "concurrency": Setting(records.count, 50),
        "account_in_flight": Setting(records.count, None),
    },
    "providers.NAME": {
        "dialect": Setting(
            _read_dialect,
            what="the API it speaks: " + " or ".join(", ".join(_DIALECTS).rsplit(", ", 1)),
        ),
        "base_url": Setting(
            values.base_url,
            None,
            what="the address up to and including /v1; leave out for demo",
            subject="base_url",
        ),
        "api_key": Setting(secrets.provider_keys, None),
        "api_key_refresh": Setting(values.duration, "50m"),
        "command_env": Setting(values.variables, []),
        **records.find_settings(records.Provider),
        "proxy": Setting(secrets.secret, None),
        "ca_file": Setting(read.text, None),
    },
    "models.ID": {
        "owned_by": Setting(read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"), None),
        "kind": Setting(read.choice(*find_kinds()), DEFAULT_KIND),
        "aliases": Setting(values.aliases, [], subject="aliases"),
        "routes": Setting(
            values.routes,
            what='an array of "provider/upstream model", tried in order',
            subject="routes",
        ),
        "max_output_tokens": Setting(records.token_count, None),
        "max_input_tokens": Setting(records.token_count, None),
        **records.find_settings(records.Model),
        "price": Setting(
            read.untyped, None, what='a table of prices per million tokens, or "free"; required'
        ),
        "price_image": Setting(read.untyped, None),
        "price_when": Setting(read.untyped, []),
        "tool_prices": Setting(read.untyped, {}),
        "cost": Setting(read.untyped, None),
        "cost_when": Setting(read.untyped, []),
        "tool_costs": Setting(read.untyped, {}),
        "allow": Setting(values.names(ALLOWED), []),
    },
    "models.ID.price": {
        "input": _price(None, what="the price of a million input tokens; rerank needs none"),
        **dict.fromkeys(("cached_input", "cache_write", "cache_write_1h"), _price(None)),
        "output": _price(
            None, what="the price of a million output tokens; needed where it makes some"
        ),
        "minute": _price(
            None, what="the price of a minute of audio to transcribe, in place of `input`"
        ),
        **dict.fromkeys(("request", "search_unit", "web_search", *MEDIA), _price(None)),
        "reported": Setting(read.factor(MAX_FACTOR), None),
        "sure": Setting(read.boolean, default=False),
    },
    "models.ID.price_image": {
        "size": Setting(read.matching(r"[0-9]{1,5}x[0-9]{1,5}", "such as 1024x1024"), None),
        "quality": Setting(read.matching(r"[a-z]{1,16}", "a lowercase word"), None),
        "price": _price(what="the price of one image"),
        "sure": Setting(read.boolean, default=False),
    },
    "models.ID.price_when": {**values.CONDITIONS, "price": _rule_price},
    "models.ID.cost_when": {
        "provider": Setting(read.text, None),
        **values.CONDITIONS,
        "cost": _rule_price,
    },
}
