"""All keys of gateway.toml: reader and default. A key without a default is required.

A key that becomes a record's field as it is has both beside that field, in `records`. The rules of
payments by card, and the smallest amounts of currencies at Stripe, are at the end.

docs/configuration.md says what each key means; a test compares its keys and defaults with this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final, get_args
from urllib.parse import urlsplit

from gateway.addresses import is_loopback
from gateway.config import reader as read
from gateway.config import records, secrets, values
from gateway.config.reader import Place, Setting, read_table
from gateway.dialects.records import DEFAULT_KIND, SAMPLING, Reasoning
from gateway.dialects.wire.billed import BILLED_NAMES
from gateway.extension import find_dialects, find_kinds
from gateway.money import MEDIA, NANO, format_amount

MAX_PRICE: Final = 1_000_000_000_000
"""Units per million tokens: enough for currencies of which a dollar is many thousands."""
MAX_TOOL_PRICE: Final = 1_000_000
"""Units per call of a tool."""
MAX_FACTOR: Final = 1000
"""The largest factor on a provider's bill."""
MOST_MINOR: Final = 99_999_999
"""The largest amount that Stripe takes, in the unit that it counts a currency in."""
_NO_DECIMALS: Final = re.compile(
    "BIF|CLP|DJF|GNF|JPY|KMF|KRW|MGA|PYG|RWF|VND|VUV|XAF|XOF|XPF", re.IGNORECASE
)
_THREE_DECIMALS: Final = re.compile("BHD|JOD|KWD|OMR|TND", re.IGNORECASE)
_WHOLE: Final = re.compile("ISK|UGX", re.IGNORECASE)
"""Counted in hundredths, of which there may be none."""

_price = read.nano_units(MAX_PRICE)
_maybe_price = Setting(_price, None)
_rule_price = Setting(
    read.untyped,
    what="as the model's own; fees, media and a factor that it leaves out are the model's",
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
    "billing.stripe": records.find_settings(records.Cards),
    "limits": {
        **records.find_settings(records.Limits),
        "account_in_flight": Setting(records.count, None),
    },
    "providers.NAME": {
        "dialect": Setting(
            _read_dialect,
            what="the API it speaks: " + " or ".join(", ".join(_DIALECTS).rsplit(", ", 1)),
        ),
        "base_url": Setting(
            values.base_url, None, what="the address up to and including /v1; leave out for demo"
        ),
        "api_key": Setting(secrets.provider_keys, None),
        "api_key_refresh": Setting(values.duration, "50m"),
        "command_env": Setting(values.variables, []),
        **records.find_settings(records.Provider),
        "proxy": Setting(secrets.secret, None),
    },
    "models.ID": {
        "owned_by": Setting(read.matching(r"[a-z0-9][a-z0-9._-]{0,63}", "a lowercase word"), None),
        "kind": Setting(read.choice(*find_kinds()), DEFAULT_KIND),
        "aliases": Setting(values.aliases, []),
        "routes": Setting(
            values.routes, what='an array of "provider/upstream model", tried in order'
        ),
        "max_output_tokens": Setting(records.token_count, None),
        "max_input_tokens": Setting(records.token_count, None),
        "reasoning": Setting(read.choice(*get_args(Reasoning)), None),
        "leave_out": Setting(values.names(SAMPLING), []),
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
        "allow": Setting(values.names(ALLOWED), []),
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


def find_minor_nano(currency: str) -> int:
    """Return the nano-units of what Stripe counts a currency in: a cent, a yen, a fils."""
    if _NO_DECIMALS.fullmatch(currency):
        return NANO
    return NANO // (1000 if _THREE_DECIMALS.fullmatch(currency) else 100)


def find_step_nano(currency: str) -> int:
    """Return the nano-units that every amount must be a multiple of."""
    if _NO_DECIMALS.fullmatch(currency) or _WHOLE.fullmatch(currency):
        return NANO
    return NANO // 100  # also of thousandths, whose last digit has to be 0


def read_cards(
    file: str, raw: object, currency: str, look_up: Callable[[str], tuple[str, str | None]] | None
) -> records.Cards:
    """Read the table. Without `look_up`, secrets are only known to be set. Raises ConfigError."""
    place = Place(file, "[billing.stripe]")
    table = read_table(place, raw, SETTINGS["billing.stripe"])
    if len(currency) != len("USD"):
        raise place.error("", f"needs a currency of three letters, not {currency}")
    _check_address(place, table["base_url"])
    for key in ("secret_key", "webhook_secret"):
        if look_up is not None:
            table[key], reason = secrets.resolve(place, key, table[key], look_up)
            # Anybody can sign with an empty secret, so nothing starts without one.
            if reason is not None:
                raise place.error(key, f"cannot be used: {reason}")
    if look_up is not None and find_spec("stripe") is None:
        raise place.error("", "needs Stripe's package: pip install 'gateway[cards]'")
    if not table["amounts"]:
        raise place.error("amounts", "must have an amount")
    for key, choose in (("minimum", min), ("maximum", max)):
        table[key] = choose(table["amounts"]) if table[key] is None else table[key]
    cards = records.make_record(records.Cards, table)
    _check_amounts(place, cards, currency)
    return cards


def _check_address(place: Place, base_url: str) -> None:
    parts = urlsplit(base_url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise place.error("base_url", "must begin with https://, as the key is sent there")


def find_problem(cards: records.Cards, currency: str, nano: int) -> str | None:
    """Say why an amount cannot be paid; None if it can."""
    step_nano = find_step_nano(currency)
    if nano <= 0 or nano % step_nano:
        return f"must be a multiple of {format_amount(step_nano)} {currency}"
    if nano > MOST_MINOR * find_minor_nano(currency):
        return "is more than Stripe takes"
    if not cards.minimum_nano <= nano <= cards.maximum_nano:
        least, most = format_amount(cards.minimum_nano), format_amount(cards.maximum_nano)
        return f"must be from {least} to {most} {currency}"
    return None


def _check_amounts(place: Place, cards: records.Cards, currency: str) -> None:
    amounts: Mapping[str, Any] = {
        "amounts": cards.amounts_nano,  # first, as the others may follow from them
        "minimum": (cards.minimum_nano,),
        "maximum": (cards.maximum_nano,),
    }
    for key, found in amounts.items():
        for nano in found:
            if problem := find_problem(cards, currency, nano):
                raise place.error(key, f"{problem}, not {format_amount(nano)}")
