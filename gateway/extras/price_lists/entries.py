"""The prices of a model in a list, and the names of providers and models by which it is found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from gateway.config.reader import ConfigError, show
from gateway.config.settings import MAX_PRICE

_NANO_DIGITS: Final = 9
"""Decimals of a nano-unit: finer amounts, which gateway.toml cannot hold, are rounded."""
_DIGITS: Final = 60
"""Significant digits of an amount, at most: any price has fewer."""
_LEAST_DIGIT: Final = -40
"""The exponent of the first digit, below which an amount counts as 0: no price is that small."""

Amounts = Mapping[str, int]
"""Nano-units by the names of `Price`; amounts that the list leaves out are absent."""


class PriceListError(ConfigError):
    """The price list cannot be read. The message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The prices of a model in a list."""

    name: str
    """The model's name in the list."""
    amounts: Amounts
    tiers: tuple[tuple[int, Amounts], ...] | None = ()
    """Tokens of input, and the amounts above them; None if our rules cannot express the list's."""
    notes: tuple[str, ...] = ()
    """Further terms of the list, in words."""


def read_amount(value: object, where: str, *, power: int = 0) -> int:
    """Read a price as nano-units; `power` is the power of ten from the list's unit to ours.

    Raises:
        PriceListError: the value is no number, or out of the range of prices.
    """
    number = Decimal(value) if type(value) is int else value
    if not isinstance(number, Decimal) or not number.is_finite():
        raise PriceListError(f"{where}: must be a number, not {show(value)}")
    # Exponents of a hostile list would make integers of gigabytes: look at them before computing.
    if not number or number.adjusted() + power < _LEAST_DIGIT:
        number = Decimal(0)
    with localcontext() as context:
        # The default of 28 digits would round some amounts before they are compared.
        context.prec = _DIGITS
        if number < 0 or number.adjusted() > _DIGITS or number.scaleb(power) > MAX_PRICE:
            raise PriceListError(f"{where}: must be a price from 0 to {MAX_PRICE} per million")
        return int(number.scaleb(power + _NANO_DIGITS).to_integral_value(ROUND_HALF_EVEN))


def stack_tiers(base: Amounts, steps: Mapping[int, Amounts]) -> tuple[tuple[int, Amounts], ...]:
    """Complete each tier with the amounts of lower tiers and of the base."""
    found: list[tuple[int, Amounts]] = []
    amounts = base
    for start in sorted(steps):
        amounts = {**amounts, **steps[start]}
        found.append((start, amounts))
    return tuple(found)


_DATE: Final = re.compile(r"[-@](?:20\d\d-\d\d-\d\d|20\d{6})$")
"""The date at the end of a model's name, as in `gpt-4o-2024-08-06` and `claude-haiku-4-5-20251001`."""


class Names(NamedTuple):
    """The names of a provider in the two formats."""

    genai: str
    litellm: str


HOSTS: Final = {
    "api.anthropic.com": Names("anthropic", "anthropic"),
    "api.cerebras.ai": Names("cerebras", "cerebras"),
    "api.cohere.com": Names("cohere", "cohere_chat"),
    "api.deepseek.com": Names("deepseek", "deepseek"),
    "api.fireworks.ai": Names("fireworks", "fireworks_ai"),
    "api.groq.com": Names("groq", "groq"),
    "api.mistral.ai": Names("mistral", "mistral"),
    "api.moonshot.ai": Names("moonshotai", "moonshot"),
    "api.novita.ai": Names("novita", "novita"),
    "api.openai.com": Names("openai", "openai"),
    "api.perplexity.ai": Names("perplexity", "perplexity"),
    "api.together.ai": Names("together", "together_ai"),
    "api.together.xyz": Names("together", "together_ai"),
    "api.x.ai": Names("x_ai", "xai"),
    "api.z.ai": Names("zai", "zai"),
    "generativelanguage.googleapis.com": Names("google", "gemini"),
    "openai.azure.com": Names("azure", "azure"),
    "openrouter.ai": Names("openrouter", "openrouter"),
    "services.ai.azure.com": Names("azure", "azure_ai"),
}
"""Providers by host; a host below one of these is the same provider."""


def find_names(base_url: str) -> Names | None:
    """Return the provider's names in the lists; None for a server that no list knows."""
    host = urlsplit(base_url).hostname or ""
    while host:
        if host in HOSTS:
            return HOSTS[host]
        host = host.partition(".")[2]
    return None


def find_name(names: Iterable[str], model: str) -> str | None:
    """Find a model's name: the same, else the one without its date, else the latest with one."""
    known = set(names)
    undated = _DATE.sub("", model)
    if model in known or undated in known:
        return model if model in known else undated
    dated = (name for name in known if name != undated and _DATE.sub("", name) == undated)
    return max(dated, default=None) if model == undated else None
