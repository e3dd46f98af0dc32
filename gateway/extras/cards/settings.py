"""The table [billing.stripe] of gateway.toml: what can be paid, in amounts that Stripe takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Final
from urllib.parse import urlsplit

from gateway.base.money import NANO, format_amount
from gateway.config import scalars as read
from gateway.config import secrets, values
from gateway.config.reader import Place, Setting
from gateway.config.records import Config, ReadTable, make_record
from gateway.config.secrets import is_literal, resolve
from gateway.extension import find_added
from gateway.extras.packages.install import tell_install
from gateway.extras.signins.tunnel import is_loopback

TABLE: Final = "billing.stripe"
SECRETS: Final = ("secret_key", "webhook_secret")
MOST_MINOR: Final = 99_999_999
"""The largest amount that Stripe takes, in the unit that it counts a currency in."""
_NO_DECIMALS: Final = re.compile(
    "BIF|CLP|DJF|GNF|JPY|KMF|KRW|MGA|PYG|RWF|VND|VUV|XAF|XOF|XPF", re.IGNORECASE
)
_THREE_DECIMALS: Final = re.compile("BHD|JOD|KWD|OMR|TND", re.IGNORECASE)
_WHOLE: Final = re.compile("ISK|UGX", re.IGNORECASE)
"""Currencies that Stripe counts in hundredths, but takes in whole units only."""
_payment = read.nano_units(1_000_000)  # Stripe takes less


@dataclass(frozen=True, slots=True)
class Cards:
    """Payments by card at Stripe."""

    secret_key: Annotated[
        str,
        Setting(secrets.secret, what="your account's secret key at Stripe: env:NAME or file:PATH"),
    ] = field(repr=False)
    webhook_secret: Annotated[
        str,
        Setting(
            secrets.secret,
            what="the signing secret of the endpoint /webhooks/stripe: env:NAME or file:PATH",
        ),
    ] = field(repr=False)
    amounts_nano: Annotated[
        tuple[int, ...], Setting(values.array(_payment, "[10, 25]"), [10, 25, 50, 100])
    ]
    minimum_nano: Annotated[int, Setting(_payment, None)]
    maximum_nano: Annotated[int, Setting(_payment, None)]
    base_url: Annotated[str, Setting(values.base_url, "https://api.stripe.com")]


@dataclass(frozen=True, slots=True)
class Seller:
    """The name under which credit is sold, from another extra."""

    find_name: Callable[[Config], str | None]


def name_product(config: Config) -> str:
    """Name what is sold, as it stands on the payment page and on the receipt."""
    sellers = (one for one in find_added("cards") if isinstance(one, Seller))
    names = filter(None, (one.find_name(config) for one in sellers))
    return next((f"{name}: credit" for name in names), "Credit")


def find_minor_nano(currency: str) -> int:
    """Return the nano-units of the unit in which Stripe counts a currency: a cent, a yen, a fils."""
    if _NO_DECIMALS.fullmatch(currency):
        return NANO
    return NANO // (1000 if _THREE_DECIMALS.fullmatch(currency) else 100)


def find_step_nano(currency: str) -> int:
    """Return the nano-units that every amount must be a multiple of."""
    if _NO_DECIMALS.fullmatch(currency) or _WHOLE.fullmatch(currency):
        return NANO
    return NANO // 100  # also where Stripe counts thousandths: the last digit has to be 0


def check_values(table: ReadTable) -> Mapping[str, object]:
    """Check the table. Without `look_up`, secrets are only known to be set. Raises ConfigError."""
    place, found = table.place, dict(table.values)
    assert table.core.billing is not None  # this table is within it
    currency = table.core.billing.currency
    if len(currency) != len("USD"):
        raise place.error("", f"needs a currency of three letters, not {currency}")
    _check_address(place, found["base_url"])
    for key in SECRETS:
        if table.look_up is not None:
            found[key], reason = resolve(place, key, found[key], table.look_up)
            # Anybody can sign with an empty secret, so nothing starts without one.
            if reason is not None:
                raise place.error(key, f"cannot be used: {reason}")
    if table.look_up is not None and find_spec("stripe") is None:
        raise place.error("", f"needs Stripe's package: {tell_install('cards')}")
    if not found["amounts"]:
        raise place.error("amounts", "must have an amount")
    for key, choose in (("minimum", min), ("maximum", max)):
        found[key] = choose(found["amounts"]) if found[key] is None else found[key]
    _check_amounts(place, make_record(Cards, found), currency)
    return found


def find_literals(table: Mapping[str, object]) -> list[str]:
    """Return the keys whose secrets are written out in the file."""
    return [key for key in SECRETS if is_literal(table.get(key))]


def _check_address(place: Place, base_url: str) -> None:
    parts = urlsplit(base_url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise place.error("base_url", "must begin with https://, as the key is sent there")


def find_problem(cards: Cards, currency: str, nano: int) -> str | None:
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


def _check_amounts(place: Place, cards: Cards, currency: str) -> None:
    amounts: Mapping[str, tuple[int, ...]] = {
        "amounts": cards.amounts_nano,  # first, as the others may follow from them
        "minimum": (cards.minimum_nano,),
        "maximum": (cards.maximum_nano,),
    }
    for key, found in amounts.items():
        for nano in found:
            if problem := find_problem(cards, currency, nano):
                raise place.error(key, f"{problem}, not {format_amount(nano)}")
