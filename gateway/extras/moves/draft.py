"""A gateway.toml written from another gateway's settings, and notes on what is not carried over.

It never contains secrets: a key in the other file becomes an environment variable that has to be set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final

from gateway.config.models import find_pricing
from gateway.config.reader import read_value
from gateway.config.values import base_url, check_model_id
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extension import find_advice, find_dialects, find_kinds
from gateway.extras.moves.known import (
    COMPLETION,
    EMBEDDING,
    RERANK,
    find_kind,
    find_known,
    find_quirks,
)
from gateway.ledger.records import Refused

NANO_UNIT: Final = Decimal("1e-9")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT_LIMIT: Final = 4096
"""Output tokens of a model whose limit is unknown: every model can write this many."""

Route = tuple[str, str]
"""The name of a provider, and its name of the model."""
Prices = Mapping[str, Decimal]
"""Per million tokens, by the names of gateway.toml."""


class Unusable(Exception):
    """Something cannot be carried over; the text says why."""


@dataclass(slots=True)
class DraftModel:
    kind: str = DEFAULT_KIND
    routes: list[Route] = field(default_factory=list)
    fallbacks: list[Route] = field(default_factory=list)
    """Routes of other models, which are tried after its own."""
    price: Prices | None = None
    """None means that no price was stated. `image`, the price of an image, excludes all others."""
    rules: Mapping[int, Prices] = field(default_factory=dict)
    """Prices for longer inputs, by the tokens of input above which they apply."""
    max_output: int | None = None
    max_input: int | None = None
    aliases: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Names under which its price and limits may be known, the best first."""

    def find_price(self) -> Mapping[int, Prices] | None:
        """Return the stated or known prices, by the input above which they apply; None without any."""
        if self.price is not None:
            return {0: self.price, **self.rules}
        known = next((one for name in self.names if (one := find_known(name))), None)
        return None if known is None else {0: known.prices, **(self.rules or known.rules)}

    def list_routes(self) -> list[Route]:
        return [*self.routes, *self.fallbacks]


@dataclass(slots=True)
class Draft:
    source: str
    """The command that writes it."""
    providers: dict[str, dict[str, object]] = field(default_factory=dict)
    models: dict[str, DraftModel] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """A description of what each variable has to hold, by its name."""
    reserved: set[str] = field(default_factory=set)
    """The variables that the other gateway reads, so that no other key gets their names."""
    _notes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _made: dict[str, str] = field(default_factory=dict, repr=False)
    """The variables that replace keys of the other file, by the key."""

    def note(self, what: str, why: str, where: str = "") -> None:
        """Note a setting that is not carried over, or that has to be checked. Notes contain no values."""
        places = self._notes.setdefault((what, why), [])
        if where and where not in places:
            places.append(where)

    @property
    def notes(self) -> list[str]:
        return [
            f"{what} ({', '.join(places)}): {why}" if places else f"{what}: {why}"
            for (what, why), places in self._notes.items()
        ]

    def name_secret(self, secret: str, wanted: str, where: str) -> str:
        """Return the environment variable for a key of the other file; `secret` is "" if that left it out."""
        if secret and secret in self._made:
            return self._made[secret]
        stem = re.sub(r"[^A-Z0-9]+", "_", wanted.upper()).strip("_")
        stem = f"KEY_{stem}" if stem[0].isdigit() else stem
        name = _find_free(stem, self.variables.keys() | self.reserved, "_")
        self.variables[name] = f"the key of {where}" if secret else f"the key of {where} (not told)"
        if secret:
            self._made[secret] = name
        return name

    def add_provider(self, wanted: str, table: Mapping[str, object]) -> str:
        """Return the name of the provider with these settings; add it if it is new. Raises Unusable."""
        for name, known in self.providers.items():
            if known == table:
                return name
        try:
            base_url(table["base_url"])
        except ValueError as error:
            raise Unusable(f"its address {error}") from None
        stem = re.sub(r"[^\w.-]+", "-", wanted).strip("-") or "provider"
        name = _find_free(stem, self.providers, "-")
        self.providers[name] = dict(table)
        return name

    def add_route(self, model_id: str, route: Route, kind: str | None = None) -> DraftModel:
        """Add a route to a model, and the model if it is new. Raises Unusable."""
        model = self.models.get(model_id)
        model = model or DraftModel(kind or find_kind(route[1]))
        self._check_route(model_id, model, route, kind or model.kind)
        if route not in model.routes:
            model.routes.append(route)
        return self.models.setdefault(model_id, model)

    def _check_route(self, model_id: str, model: DraftModel, route: Route, kind: str) -> None:
        try:
            read_value(check_model_id, model_id, "model_id")
        except ValueError as error:
            raise Unusable(str(error)) from error
        if "*" in model_id:
            raise Unusable("a `*` cannot be asked for here: write each model")
        dialect = find_dialects().get(str(self.providers[route[0]]["dialect"]))
        if kind != DEFAULT_KIND and dialect is not None and not dialect.is_openai_like:
            raise Unusable(f"models of kind {kind} need a provider that speaks OpenAI's API")
        if model.kind != kind:
            raise Unusable(f"{'/'.join(route)} is a model for another purpose ({kind})")
        if kind == EMBEDDING and model.routes and model.routes[0][1] != route[1]:
            raise Unusable("vectors of two models do not mix, so one cannot stand in for another")

    def add_deployment(self, model_id: str, route: Route, one: DraftModel) -> None:
        """Add a route with its own price and limits; the first ones become the model's. Raises Unusable."""
        where, model = f"{model_id}: {'/'.join(route)}", self.models.get(model_id)
        dearer = model and _compare(model, one)
        model = self.add_route(model_id, route, one.kind)
        if not model.names or (model.find_price() is None and not _is_free(one.find_price())):
            model.price, model.rules = one.price, one.rules
        elif dearer or one.find_price() not in (None, model.find_price()):
            why = dearer or "deployments of one name have one price here, the first one's"
            self.note("prices", why, where)
        model.max_output = model.max_output or one.max_output
        model.max_input = model.max_input or one.max_input
        model.names += one.names

    def add_fallback(self, model_id: str, other_id: str, what: str) -> None:
        """Add the routes of another model as fallbacks, or note why not."""
        where = f"{model_id} → {other_id}"
        missing = next((one for one in (model_id, other_id) if one not in self.models), None)
        if missing is not None:
            self.note(what, f"there is no model {missing} to fall back", where)
        elif model_id != other_id:
            model, other = self.models[model_id], self.models[other_id]
            why = "the fallback is a route of the model, and costs what the model costs"
            try:
                dearer = _compare(model, other)
                for route in other.routes:
                    self._check_route(model_id, model, route, other.kind)
            except Unusable as error:
                self.note(what, str(error), where)
                return
            taken = {*model.routes, *model.fallbacks}
            model.fallbacks += [route for route in other.routes if route not in taken]
            self.note(what, dearer or why, where)

    def add_alias(self, alias: str, model_id: str, what: str) -> None:
        if alias in self.models or any(alias in one.aliases for one in self.models.values()):
            self.note(what, "another model has this name", alias)
        elif model_id not in self.models or "*" in alias:
            self.note(what, "there is no such model to give another name to", alias)
        else:
            self.models[model_id].aliases.append(alias)

    def write(self) -> str:
        """Write the file. Raises Refused if no model is left."""
        tables = {name: self._write_model(name) for name in self.models}
        priced = [lines for lines, is_priced in tables.values() if is_priced]
        later = [lines for lines, is_priced in tables.values() if not is_priced]
        if not priced:
            raise Refused("\n".join(["no model could be carried over", *self.notes]))
        used = {name for model in self.models.values() for name, _ in model.list_routes()}
        self.providers = {name: self.providers[name] for name in self.providers if name in used}
        asked = json.dumps(list(self.providers.values()))
        self.variables = {
            name: why for name, why in self.variables.items() if f'"env:{name}"' in asked
        }
        head = [f"# Written by `{self.source}`. Prices are what you charge: look at each."]
        if self.variables:
            head += ["#", "# Set these environment variables; a provider without its key is off:"]
            head += [_comment(f"{name}: {why}") for name, why in self.variables.items()]
        head += ["", "[billing]", 'currency = "USD"']
        for name, table in self.providers.items():
            lines = [f"{key} = {write_value(value)}" for key, value in table.items()]
            head += ["", f"[providers.{_quote_key(name)}]", *lines]
        tail = (
            ["", "# To add these, give each its `price`, and take the `# ` away:"] if later else []
        )
        tail += [f"# {line}".rstrip() for lines in later for line in lines]
        if self._notes:
            tail += ["", "# Not carried over, or to be looked at:", *map(_comment, self.notes)]
        return "\n".join([*head, *(line for lines in priced for line in lines), *tail]) + "\n"

    def _write_model(self, model_id: str) -> tuple[list[str], bool]:
        """Return the lines of a model's table, and whether they include a price."""
        model, prices = self.models[model_id], self._judge_prices(model_id)
        is_chat = model.kind == DEFAULT_KIND
        names = [*model.names, *(name for _, name in model.list_routes())]
        settings: dict[str, object] = {
            "kind": None if is_chat else model.kind,
            "routes": ["/".join(route) for route in model.list_routes()],
            "aliases": model.aliases or None,
            "max_input_tokens": model.max_input,
            "max_output_tokens": self._find_limit(model_id),
            **(find_quirks(names) if is_chat else {}),
            **prices,
        }
        lines = [f"{key} = {write_value(value)}" for key, value in settings.items() if value]
        head = f"[models.{_quote(model_id)}]"
        return ["", head, *lines], bool(prices)

    def _judge_prices(self, model_id: str) -> dict[str, object]:
        """Return a model's prices by the names of its settings; none, but a note, if they cannot be used."""
        model = self.models[model_id]
        prices = model.find_price()
        if prices is None:
            why = "no price is known: to add them, give each one"
            self.note("models without a price", why, model_id)
            return {}
        settings = _tell_prices(model.kind, prices)
        mistake = next(filter(None, map(find_advice().judge_dollars, prices.values())), "")
        if mistake := mistake or _find_missing(model.kind, settings.get("price")):
            self.note("prices", f"{mistake}; to add it, write its price", model_id)
            return {}
        if model.price is None:
            why = "theirs is built in there, and is a list price here, by their names: look at each"
            self.note("prices", why, model_id)
        if _is_free(prices) and len(prices) > 1:
            self.note("prices above a number of tokens", "the model is free below it", model_id)
        return settings

    def _find_limit(self, model_id: str) -> int | None:
        """Find the output limit of a model: stated, known, or guessed if a provider needs one; else None."""
        model = self.models[model_id]
        if model.kind not in (DEFAULT_KIND, COMPLETION):
            return None
        names = [*model.names, *(name for _, name in model.routes)]
        known = (one.max_output for name in names if (one := find_known(name)))
        limit = model.max_output or next(filter(None, known), None)
        limited = [name for name, one in find_dialects().items() if one.needs_limit]
        dialects = [self.providers[name]["dialect"] for name, _ in model.list_routes()]
        if limit is None and any(one in limited for one in dialects):
            self.note("max_output_tokens", f"{_DEFAULT_LIMIT} is a guess: look it up", model_id)
            return _DEFAULT_LIMIT
        return limit


def _compare(model: DraftModel, other: DraftModel) -> str:
    """Return a warning if routes of a dearer model are to join a model; "" if all is well.

    Raises Unusable if calls that cost something would become free.
    """
    own, its = model.find_price(), other.find_price()
    if _is_free(own) and not _is_free(its):
        raise Unusable("the model is free and this one is not, so it is no route of it")
    if own is None or its is None:
        return ""
    for above in sorted({*own, *its}):
        ours, theirs = (one[max(n for n in one if n <= above)] for one in (own, its))
        if any(amount > _find_amount(ours, name) for name, amount in theirs.items()):
            beyond = f" above {above} tokens" if above else ""
            return (
                f"it costs {write_value(theirs)}{beyond}, and callers pay {write_value(ours)}, the price of the"
                " model: raise that, or delete the route"
            )
    return ""


def _find_amount(prices: Prices, name: str) -> Decimal:
    """Return a price. If it is missing, the price of input or output applies."""
    other = "output" if name.endswith("_output") else "input" if "_" in name else ""
    return prices.get(name, prices.get(other, Decimal(0)))


def _is_free(prices: Mapping[int, Prices] | None) -> bool:
    return prices is not None and not any(prices[0].values())


def _tell_prices(kind: str, prices: Mapping[int, Prices]) -> dict[str, object]:
    """Return a model's prices by the names of its settings."""
    if _is_free(prices):
        return {"price": "free"}
    if "image" in prices[0]:
        return {"price_image": [{"price": prices[0]["image"]}]}
    price, rules = _keep_price(kind, prices[0]), [*sorted(prices, reverse=True)[:-1]]
    # The first rule that applies counts, so the longest inputs come first.
    told = [{"input_above": above, "price": _keep_price(kind, prices[above])} for above in rules]
    return {"price": price, "price_when": told}


def _find_missing(kind: str, price: object) -> str:
    """Describe the amounts that a price lacks for a model of this kind; "" if it lacks none."""
    known = find_kinds().get(kind)
    if known is None or not isinstance(price, dict):
        return ""
    needed = find_pricing(known, {"price": price, "cost": None}).needed
    missing = " and ".join(sorted(needed - price.keys()))
    return missing and f"a model of kind {kind} needs a price of {missing}, which is not told"


def _keep_price(kind: str, price: Prices) -> Prices:
    """Return the amounts that a model of this kind can have, with zeros for missing required ones."""
    kept = dict(price)
    if kind in (DEFAULT_KIND, COMPLETION):
        kept = {"input": Decimal(0), "output": Decimal(0), **kept}
    elif kind in (EMBEDDING, RERANK):
        kept.pop("output", None)
        kept = kept if kind == RERANK else {"input": Decimal(0), **kept}
    return kept


def round_price(number: Decimal) -> Decimal:
    """Round a price to nano-units, which are the finest, but never to nothing."""
    with localcontext() as context:
        context.prec = 40
        rounded = number.quantize(NANO_UNIT, ROUND_HALF_EVEN).normalize()
    return NANO_UNIT if number and not rounded else rounded


def write_value(value: object) -> str:
    """Write a value of TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_quote_key(key)} = {write_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(write_value, value))}]"
    return _quote(str(value))


def _quote(text: str) -> str:
    # DEL is the one character that JSON takes as it is, and TOML does not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quote_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quote(name)


def _comment(text: str) -> str:
    # A line break in a name would end the comment.
    return f"# - {''.join(one if one.isprintable() else ' ' for one in text)}"


def _find_free(stem: str, taken: Iterable[str], between: str) -> str:
    known, name, number = set(taken), stem, 1
    while name in known:
        number += 1
        name = f"{stem}{between}{number}"
    return name
