"""Published price lists: their formats, entries and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path
from typing import Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

from gateway.config.reader import ConfigError, show
from gateway.config.settings import MAX_PRICE
from gateway.ledger.records import NotFound

_NANO_DIGITS: Final = 9
"""Decimals of a nano-unit: finer amounts, which gateway.toml cannot hold, are rounded."""
_DIGITS: Final = 60
"""Significant digits of an amount, at most: any price has fewer."""
_LEAST_DIGIT: Final = -40
"""The place of a first digit below which an amount is 0: no price is that small."""

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
    """Tokens of input, and the amounts above them; None if they are no rules of ours."""
    notes: tuple[str, ...] = ()
    """Further terms of the list, in words."""


def read_amount(value: object, where: str, *, power: int = 0) -> int:
    """Read a price as nano-units, times ten to the `power`, which makes it one of ours.

    Raises:
        PriceListError: it is no number, or none that can be a price.
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
    """Complete each tier by what the tiers below it, or the base, say."""
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


Json = Mapping[str, object]

_PRICES: Final = {
    "input": ("input_mtok", 0),
    "cached_input": ("cache_read_mtok", 0),
    "cache_write": ("cache_write_mtok", 0),
    "cache_write_1h": ("cache_write_1h_mtok", 0),
    "output": ("output_mtok", 0),
    "request": ("requests_kcount", -3),
    "web_search": ("web_searches_kcount", 0),
}
"""The list's name of each price, and the power of ten that makes it one of ours."""


class GenaiPrices:
    """A list of providers, each with its models."""

    format: Final = "genai"
    """The name of its format among `Names`."""

    def __init__(self, file: str, raw: list[object], today: date) -> None:
        self._file = file
        self._providers = [one for one in raw if isinstance(one, dict)]
        self._today = today

    def find(self, provider: str, model: str) -> Listed | None:
        """Find a model by its id, or by a name that its `match` gives as a whole.

        Raises PriceListError if its entry is not in order.
        """
        models: dict[str, Json] = {}
        for one in self._providers:
            listed = one.get("models")
            if one.get("id") == provider and isinstance(listed, list):
                for entry in listed:
                    for name in _name(entry):  # the first entry of a name counts
                        models.setdefault(name, entry)
        found = find_name(models, model)
        return None if found is None else self._read(f"{provider}/{found}", models[found])

    def _read(self, name: str, model: Json) -> Listed:
        where = f"{self._file}: {show(name)}"
        prices, notes = self._choose(where, model.get("prices"))
        base: dict[str, int] = {}
        steps: dict[int, dict[str, int]] = {}
        for ours, (theirs, power) in _PRICES.items():
            value = prices.get(theirs)
            if value is None:
                continue
            at = f"{where}: {theirs}"
            if not isinstance(value, dict):
                base[ours] = read_amount(value, at, power=power)
                continue
            base[ours] = read_amount(value.get("base"), f"{at}.base", power=power)
            for start, amount in _list_tiers(value, at):
                steps.setdefault(start, {})[ours] = read_amount(amount, at, power=power)
        return Listed(name, base, stack_tiers(base, steps), notes)

    def _choose(self, where: str, prices: object) -> tuple[Json, tuple[str, ...]]:
        """Choose the prices of today: of several, the last whose date has come."""
        if isinstance(prices, dict):
            return prices, ()
        chosen: Json | None = None
        notes: list[str] = []
        for one in prices if isinstance(prices, list) else ():
            inner = one.get("prices") if isinstance(one, dict) else None
            if not isinstance(inner, dict):
                break
            constraint = one.get("constraint") or {}
            start = constraint.get("start_date") if isinstance(constraint, dict) else constraint
            if constraint and start is None:
                notes.append("the list has other prices at some times of the day")
            elif start is None or _read_date(start, where) <= self._today:
                chosen = inner
            else:
                notes.append(f"the list has other prices from {_read_date(start, where)} on")
        if chosen is None:
            raise PriceListError(f'{where}: "prices" must be a table, or an array of tables')
        return chosen, tuple(dict.fromkeys(notes))


def _name(entry: object) -> Iterator[str]:
    if isinstance(entry, dict) and isinstance(identity := entry.get("id"), str):
        yield identity
        match = entry.get("match")
        clauses = match.get("or", [match]) if isinstance(match, dict) else []
        for clause in clauses if isinstance(clauses, list) else []:
            if isinstance(clause, dict) and isinstance(equals := clause.get("equals"), str):
                yield equals


def _list_tiers(value: Json, where: str) -> Iterator[tuple[int, object]]:
    tiers = value.get("tiers")
    for tier in tiers if isinstance(tiers, list) else [tiers]:
        start = tier.get("start") if isinstance(tier, dict) else None
        if not isinstance(tier, dict) or type(start) is not int or start < 0:
            raise PriceListError(
                f'{where}: each of "tiers" must have a whole "start" and a "price"'
            )
        yield start, tier.get("price")


def _read_date(value: object, where: str) -> date:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError as error:
        raise PriceListError(f"{where}: start_date must be a date, not {show(value)}") from error


PROVIDER: Final = "litellm_provider"
_OURS: Final = {
    "input_cost_per_token": ("input", 6),
    "cache_read_input_token_cost": ("cached_input", 6),
    "cache_creation_input_token_cost": ("cache_write", 6),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h", 6),
    "output_cost_per_token": ("output", 6),
    "input_cost_per_request": ("request", 0),
}
"""Our name of each of the list's prices, and the power of ten that makes it one of ours."""
_ABOVE: Final = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
_RANGES: Final = "tiered_pricing"
_SEARCHES: Final = "search_context_cost_per_query"


class LitellmPrices:
    """A table of models, each with its provider's name."""

    format: Final = "litellm"

    def __init__(self, file: str, raw: Mapping[str, object]) -> None:
        self._file = file
        self._models = {name: one for name, one in raw.items() if isinstance(one, dict)}

    def find(self, provider: str, model: str) -> Listed | None:
        """Find a model by its name, with or without the provider's in front.

        Raises PriceListError if its entry is not in order.
        """
        prefix = f"{provider}/"
        models = {
            name.removeprefix(prefix): name
            for name, one in self._models.items()
            if one.get(PROVIDER) == provider
        }
        name = find_name(models, model)
        return None if name is None else self._read(models[name])

    def _read(self, name: str) -> Listed:
        where, raw = f"{self._file}: {show(name)}", self._models[name]
        base: dict[str, int] = {}
        steps: dict[int, dict[str, int]] = {}
        for key, value in raw.items():
            found = _ABOVE.fullmatch(key)
            named = _OURS.get(found[1] if found else key)
            if named is None or value is None:
                continue
            amounts = steps.setdefault(int(found[2]) * 1000, {}) if found else base
            amounts[named[0]] = read_amount(value, f"{where}: {key}", power=named[1])
        notes = _add_searches(base, raw.get(_SEARCHES), f"{where}: {_SEARCHES}")
        if raw.get(_RANGES):
            return Listed(name, base, None, (*notes, "the list prices ranges of input"))
        return Listed(name, base, stack_tiers(base, steps), notes)


def _add_searches(base: dict[str, int], raw: object, where: str) -> tuple[str, ...]:
    """Add the price of a thousand searches, if they have one whatever their size."""
    prices = {
        read_amount(one, where, power=3) for one in (raw.values() if isinstance(raw, dict) else ())
    }
    if len(prices) > 1:
        return ("the list prices web searches by their size",)
    if prices:
        base["web_search"] = prices.pop()
    return ()


PriceFile = GenaiPrices | LitellmPrices
MAX_BYTES: Final = 64 * 2**20
"""The most bytes of a list: forty times as many as today's."""


def open_list(path: Path, today: date) -> PriceFile:
    """Read a list; `today` chooses among prices that begin on a date.

    Raises:
        NotFound: there is no such file.
        PriceListError: it cannot be read, or its format is not known.
    """
    raw = _parse(path)
    if isinstance(raw, dict) and isinstance(providers := raw.get("providers"), list):
        raw = providers  # as genai-prices has it since version 3
    if isinstance(raw, list) and any(isinstance(one, dict) and "models" in one for one in raw):
        return GenaiPrices(str(path), raw, today)
    if isinstance(raw, dict) and any(
        isinstance(one, dict) and PROVIDER in one for one in raw.values()
    ):
        return LitellmPrices(str(path), raw)
    raise PriceListError(
        f"{path}: is JSON, but no price list that is known here: neither genai-prices' (an array of"
        f' providers with "models") nor LiteLLM\'s (a table of models with "{PROVIDER}")'
    )


def _parse(path: Path) -> object:
    """Parse JSON, with fractions as Decimal."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PriceListError(f"{path}: is larger than {MAX_BYTES} bytes; is it a price list?")
        # A downloaded list may begin with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
        # Python's parser takes NaN and Infinity, which are no JSON and no prices.
        parsed: object = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise NotFound(
            f"{path}: there is no such file; download a price list and name it"
        ) from error
    except OSError as error:
        raise PriceListError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PriceListError(
            f"{path}: must be UTF-8 text; the byte at {error.start} is not"
        ) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise PriceListError(f"{path}: is not valid JSON at {where}: {error.msg}") from error
    except RecursionError as error:
        raise PriceListError(f"{path}: is not valid JSON: nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        raise PriceListError(f"{path}: is not valid JSON: it has a malformed number") from error
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
