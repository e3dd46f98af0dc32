"""The models of gateway.toml: their kinds, names and routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from gateway.base.prices import PriceList
from gateway.config.prices import NO_OUTPUT, TOLD, Told, read_costs, read_price_list
from gateway.config.reader import Place, Problems, quote_key, read_table, read_value, show, suggest
from gateway.config.records import Model, Provider, Route
from gateway.config.settings import SETTINGS
from gateway.config.values import check_model_id
from gateway.dialects.wire.records import DEFAULT_KIND, Kind, Pricing
from gateway.extension import find_advice, find_dialects, find_kinds, find_missing

MAX_OUTPUT_TOKENS: Final = 128_000
"""The default output limit of a model: the largest that vendors offer."""


def read_models(
    file: str,
    raw: Mapping[str, Any],
    providers: Mapping[str, Provider],
    problems: Problems,
    *,
    names: Collection[str],
    currency: str,
) -> dict[str, Model]:
    """Read all models except those whose kind needs an extra that is missing.

    `names`: all providers of the file; `providers`: those without errors; `currency`: "" if it has an error.
    """
    models: dict[str, Model] = {}
    for name, table in raw.items():
        if find_lack(table, "kind") is None:
            with problems.collect("models"):
                model = _read_model(file, name, table, names, providers)
                problems.doubts += find_advice().judge_model(
                    _place(file, name), table, model, currency
                )
                models[name] = model
    with problems.collect("models"):
        _check_limits(file, raw, models, providers)
    with problems.collect("models"):
        _check_aliases(file, raw, models.values())
    return models


def _read_model(
    file: str, model_id: str, raw: object, names: Iterable[str], providers: Mapping[str, Provider]
) -> Model:
    place, problems = _place(file, model_id), Problems()
    _check_id(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"], problems)
    # A key with an error is absent from `settings`, so that it gets no second error.
    kind, limit = settings.get("kind", DEFAULT_KIND), settings.pop("max_output_tokens", None)
    most_input = settings.pop("max_input_tokens", None)
    routes = tuple(Route(*pair) for pair in settings.pop("routes", ()))
    for problem in _find_route_problems(kind, routes, names, providers):
        problems.add(place.error("routes", problem))
    told = {name: settings.pop(name) for name in TOLD}
    pricing = find_pricing(find_kinds()[kind], told)
    needed, has_output = pricing.needed, "output" in pricing.needed
    if limit is not None and not has_output:
        problems.add(place.error("max_output_tokens", NO_OUTPUT))
    prices: PriceList | None = None
    with problems.collect():
        if "kind" in settings:
            prices = _read_prices(place, kind, told, needed)
    with problems.collect():
        costs = read_costs(place, routes, told, needed)
    problems.raise_all()
    assert prices is not None
    return Model(
        id=model_id,
        owned_by=settings.pop("owned_by") or routes[0].provider.lower(),
        routes=routes,
        max_output_tokens=limit or MAX_OUTPUT_TOKENS if has_output else 0,
        max_input_tokens=most_input or pricing.most_input,
        unit=pricing.unit,
        product=pricing.makes,
        prices=prices,
        costs=costs,
        **settings,
    )


def _read_prices(place: Place, kind: str, told: Told, needed: Collection[str]) -> PriceList:
    find_reader = find_kinds()[kind].find_reader
    if find_reader is not None:
        return find_reader()(place, told, needed)
    if told["price_image"] is not None:
        raise place.error("price_image", 'needs kind = "image"')
    return read_price_list(place, told, needed)


def _place(file: str, model_id: str) -> Place:
    return Place(file, f"[models.{quote_key(model_id, always=True)}]")


def find_lack(table: object, key: Literal["kind", "dialect"]) -> str | None:
    """Say which missing extra a model or a provider needs, without which it is off; None if there is none."""
    name = table.get(key) if isinstance(table, dict) else None
    if not isinstance(name, str) or name in (find_kinds() if key == "kind" else find_dialects()):
        return None
    needed = find_missing("kinds" if key == "kind" else "dialects", name)
    return needed and f"{key} = {show(name)} {needed}"


def find_pricing(kind: Kind, told: Told) -> Pricing:
    """Return how a model is priced, by what its prices state."""
    tables = [told[key] for key in ("price", "cost") if isinstance(told[key], dict)]
    stated = {*(name for name, value in told.items() if value), *(tables[0] if tables else ())}
    return next(one for one in kind.pricings if not one.mark or one.mark in stated)


def _find_route_problems(
    kind: str, routes: Sequence[Route], names: Iterable[str], providers: Mapping[str, Provider]
) -> Iterator[str]:
    """Yield each provider that is not there, and why a model of this kind cannot have these routes."""
    for route in routes:
        if route.provider not in names:
            known = suggest(route.provider, names)
            yield f"there is no [providers.{quote_key(route.provider)}]; {known}"
    talks, all_ = kind == DEFAULT_KIND, find_dialects().items()
    served_by = [name for name, one in all_ if talks or one.is_openai_like]
    for route in routes:
        provider = providers.get(route.provider)
        if provider and provider.dialect in find_dialects() and provider.dialect not in served_by:
            known = " or ".join(served_by)
            yield f"kind = {show(kind)} needs a provider of dialect {known}"
            return
        reason = find_kinds()[kind].one_model_as
        if reason and route.upstream_model != routes[0].upstream_model:
            yield f"must name one upstream model: {reason}, so no route can stand in for another"
            return


def _check_limits(
    file: str,
    raw: Mapping[str, Any],
    models: Mapping[str, Model],
    providers: Mapping[str, Provider],
) -> None:
    """Refuse models without a limit if a provider requires one."""
    needing = [name for name, one in find_dialects().items() if one.needs_limit]
    limited = {one.name for one in providers.values() if one.dialect in needing}
    lacking = [
        f"[models.{quote_key(model.id, always=True)}]"
        for model in models.values()
        if "max_output_tokens" not in raw[model.id]
        and any(route.provider in limited for route in model.routes)
    ]
    if lacking:
        raise Place(file, ", ".join(lacking)).error(
            "max_output_tokens",
            "is missing; a messages provider has to be told the most that the model writes, such as"
            " max_output_tokens = 64_000",
        )


def _check_aliases(file: str, ids: Iterable[str], models: Iterable[Model]) -> None:
    """Refuse an alias that is the name of another model, or of two."""
    taken = dict.fromkeys(ids, "is a model of its own")
    for model in models:
        for alias in model.aliases:
            if alias in taken:
                raise _place(file, model.id).error("aliases", f"{show(alias)} {taken[alias]}")
            taken[alias] = f"is an alias of {show(model.id)}"


def _check_id(place: Place, model_id: str, raw: object) -> None:
    """Refuse an impossible id, and an id without quotes.

    TOML reads `[models.gpt-4.1]` as table `1` of `gpt-4`.
    """
    try:
        read_value(check_model_id, model_id, "model_id")
    except ValueError as error:
        raise place.error("", str(error)) from error
    inner = raw if isinstance(raw, dict) else {}
    for key, value in inner.items():
        if isinstance(value, dict) and key not in SETTINGS["models.ID"]:
            raise place.error(
                quote_key(key),
                "unknown table; put a model id with a dot in quotes: "
                f"[models.{quote_key(f'{model_id}.{key}', always=True)}]",
            )
