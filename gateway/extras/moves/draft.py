"""A gateway.toml that is being written from another gateway's settings, and what stays behind.

Secrets never come into it: a key that was written out becomes a variable that has to be set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final

from gateway.config.plausible import is_refused
from gateway.config.values import base_url, check_model_id
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extension import find_dialects
from gateway.extras.moves.known import (
    COMPLETION,
    EMBEDDING,
    RERANK,
    Known,
    find_kind,
    find_known,
    find_quirks,
)
from gateway.ledger.records import Refused

NANO_UNIT: Final = Decimal("1e-9")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT_LIMIT: Final = 4096
"""Output tokens of a model whose own limit is not known: each model can write as many."""

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
    price: Prices | None = None
    """None means that none was told."""
    rules: dict[int, Prices] = field(default_factory=dict)
    """The prices above so many tokens of input."""
    image: Decimal | None = None
    """The price of an image, in place of `price`."""
    max_output: int | None = None
    max_input: int | None = None
    aliases: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """The names by which its price and limits may be known, the best first."""


@dataclass(slots=True)
class Draft:
    source: str
    """The command that writes it."""
    unpriced_is_free: bool
    """Whether the other gateway charges nothing for a model without a price; else it refuses it."""
    providers: dict[str, dict[str, object]] = field(default_factory=dict)
    models: dict[str, DraftModel] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    """What each variable has to hold, by its name."""
    reserved: set[str] = field(default_factory=set)
    """The variables that the other gateway reads, so that no other key gets their names."""
    _notes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    _made: dict[str, str] = field(default_factory=dict, repr=False)
    """The variables that were made for keys that were written out, by the key."""

    def note(self, what: str, why: str, where: str = "") -> None:
        """Note that something is not carried over, or has to be looked at. No value is named."""
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
        """Return the variable that is to hold a key that was written out; "" is one that was left out."""
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
        """Return the name of the provider with these settings. Raises Unusable."""
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
        """Add a route to a model, which is new if it has none. Raises Unusable."""
        try:
            check_model_id(model_id)
        except ValueError as error:
            raise Unusable(str(error)) from error
        if "*" in model_id:
            raise Unusable("a `*` cannot be asked for here: write each model")
        model = self.models.get(model_id)
        kind = kind or (model.kind if model else find_kind(route[1]))
        dialect = find_dialects().get(str(self.providers[route[0]]["dialect"]))
        if kind != DEFAULT_KIND and dialect is not None and not dialect.is_openai_like:
            raise Unusable(f"models of kind {kind} need a provider that speaks OpenAI's API")
        model = model or DraftModel(kind)
        if model.kind != kind:
            raise Unusable(f"{'/'.join(route)} is a model for another purpose ({kind})")
        if kind == EMBEDDING and model.routes and model.routes[0][1] != route[1]:
            raise Unusable("vectors of two models do not mix, so one cannot stand in for another")
        if route not in model.routes:
            model.routes.append(route)
        self.models[model_id] = model
        return model

    def add_fallback(self, model_id: str, other_id: str, what: str) -> None:
        """Let the routes of another model stand in for those of a model."""
        model, other = self.models.get(model_id), self.models.get(other_id)
        if model is None or other is None or model is other:
            missing = model_id if model is None else other_id
            self.note(what, f"there is no model {missing} to fall back", f"{model_id} → {other_id}")
            return
        try:
            for route in list(other.routes):
                self.add_route(model_id, route, other.kind)
        except Unusable as error:
            self.note(what, str(error), f"{model_id} → {other_id}")
            return
        why = "the fallback is a route of the model, and costs what the model costs"
        self.note(what, why, f"{model_id} → {other_id}")

    def add_alias(self, alias: str, model_id: str, what: str) -> None:
        if alias in self.models or any(alias in one.aliases for one in self.models.values()):
            self.note(what, "another model has this name", alias)
        elif model_id not in self.models or "*" in alias:
            self.note(what, "there is no such model to give another name to", alias)
        else:
            self.models[model_id].aliases.append(alias)

    def write(self) -> str:
        """Write the file. Raises Refused if no model is left."""
        written = [part for name in list(self.models) if (part := self._write_model(name))]
        if not written:
            raise Refused("\n".join(["no model could be carried over", *self.notes]))
        head = [f"# Written by `{self.source}`. Prices are what you charge: look at each."]
        if self.variables:
            head += ["#", "# Set these environment variables; a provider without its key is off:"]
            head += [_comment(f"{name}: {why}") for name, why in self.variables.items()]
        head += ["", "[billing]", 'currency = "USD"']
        used = {route[0] for model in self.models.values() for route in model.routes}
        for name, table in self.providers.items():
            if name in used:
                lines = [f"{key} = {write_value(value)}" for key, value in table.items()]
                head += ["", f"[providers.{_quote_key(name)}]", *lines]
        tail = ["", "# Not carried over, or to be looked at:", *map(_comment, self.notes)]
        return "\n".join([*head, *written, *(tail if self._notes else ())]) + "\n"

    def _write_model(self, model_id: str) -> str:
        model, mark = self.models[model_id], ""
        known = next((one for name in model.names if (one := find_known(name))), None)
        price, image = model.price, model.image
        rules: Mapping[int, Prices] = model.rules
        if price is None and known is not None:
            price = {name: one for name, one in known.prices.items() if name != "image"}
            rules, image = rules or known.rules, image or known.prices.get("image")
        if image is None and price is None:
            if not self.unpriced_is_free:
                why = "it has no price there, where it is refused; give it one and add it by hand"
                self.note("models without a price", why, model_id)
                self.models.pop(model_id)
                return ""
            why = 'no price is known, so they are "free" until you SET THEIR PRICES'
            self.note("models without a price", why, model_id)
            mark = "  # no price is known: SET IT"
        elif model.price is None and model.image is None:
            why = "theirs is built in there, and is a list price here, by their names: look at each"
            self.note("prices", why, model_id)
        told: dict[str, object] = {
            "kind": None if model.kind == DEFAULT_KIND else model.kind,
            "routes": ["/".join(route) for route in model.routes],
            "aliases": model.aliases or None,
            "max_input_tokens": model.max_input,
            "max_output_tokens": self._find_limit(model_id, known),
            **(find_quirks(model.names) if model.kind == DEFAULT_KIND else {}),
            **_tell_prices(model.kind, price, rules, image),
        }
        if told.get("price") == "free" and rules:
            self.note("prices above a number of tokens", "the model is free below it", model_id)
        if _is_far([price or {}, *rules.values(), {"price": image or Decimal(0)}]):
            why = "no vendor comes near them, so they are carried over as sure: look at each"
            self.note("prices", why, model_id)
        lines = [f"{key} = {write_value(value)}" for key, value in told.items() if value]
        return (
            "\n".join(["", f"[models.{json.dumps(model_id, ensure_ascii=False)}]", *lines]) + mark
        )

    def _find_limit(self, model_id: str, known: Known | None) -> int | None:
        """Find the most output tokens of a model: what is told, what is known, or else a guess."""
        model = self.models[model_id]
        if model.kind not in (DEFAULT_KIND, COMPLETION):
            return None
        routed = (one for route in model.routes if (one := find_known(route[1])))
        limits = (one.max_output for one in (known, *routed) if one)
        limit = model.max_output or next(filter(None, limits), None)
        limited = [name for name, one in find_dialects().items() if one.needs_limit]
        if limit is None and any(self.providers[p]["dialect"] in limited for p, _ in model.routes):
            self.note("max_output_tokens", f"{_DEFAULT_LIMIT} is a guess: look it up", model_id)
            return _DEFAULT_LIMIT
        return limit


def _is_far(prices: Iterable[Prices]) -> bool:
    """Tell whether `check` refuses one of the prices unless it is said to be meant."""
    return any(
        is_refused({name: int(one / NANO_UNIT) for name, one in amounts.items()})
        for amounts in prices
    )


def _tell_prices(
    kind: str, price: Prices | None, rules: Mapping[int, Prices], image: Decimal | None
) -> dict[str, object]:
    """Return a model's prices by the names of its settings. They are what the operator asks today."""
    if image is not None:
        row = {"price": image}
        return {"price_image": [{**row, "sure": True} if _is_far([row]) else row]}
    kept = _keep_price(kind, price)
    if isinstance(kept, str):
        return {"price": kept}
    told = {**kept, "sure": True} if _is_far([kept, *rules.values()]) else kept
    return {"price": told, "price_when": _list_rules(kind, rules)}


def _list_rules(kind: str, rules: Mapping[int, Prices]) -> list[dict[str, object]]:
    """Return the rules of gateway.toml, of which the first that holds counts."""
    return [
        {"input_above": above, "price": _keep_price(kind, rules[above])}
        for above in sorted(rules, reverse=True)
    ]


def _keep_price(kind: str, price: Prices | None) -> Prices | str:
    """Return the amounts that a model of a kind has, all of them; "free" if they are zeros."""
    if price is None or not any(price.values()):
        return "free"
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
    return json.dumps(str(value), ensure_ascii=False)


def _quote_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _comment(text: str) -> str:
    # A line break in a name would end the comment.
    return f"# - {''.join(one if one.isprintable() else ' ' for one in text)}"


def _find_free(stem: str, taken: Iterable[str], between: str) -> str:
    known, name, number = set(taken), stem, 1
    while name in known:
        number += 1
        name = f"{stem}{between}{number}"
    return name
