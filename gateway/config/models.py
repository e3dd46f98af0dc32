"""The models of gateway.toml: their kinds, names and routes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.config.prices import (
    NO_OUTPUT,
    TOLD,
    Told,
    read_costs,
    read_image_prices,
    read_price_list,
)
from gateway.config.reader import ConfigError, Place, Problems, quote_key, read_table, show, suggest
from gateway.config.records import Model, Provider, Route
from gateway.config.settings import SETTINGS
from gateway.config.values import check_model_id
from gateway.dialects.records import (
    DEFAULT_KIND,
    DIALECTS,
    LIMITED,
    OPENAI_LIKE,
    InputUnit,
    ModelKind,
)
from gateway.prices import PriceList
from gateway.usage import TOKENS_PER_SECOND

MAX_OUTPUT_TOKENS: Final = 128_000
"""The default output limit of a model: the largest that vendors offer."""
MAX_INPUT_TOKENS: Final = 2_000_000
"""The default input limit of a model: the largest that vendors offer."""
MAX_SECONDS: Final = 14_400
"""The default of the most seconds of a recording. Vendors take files of 25 MB, which are seldom longer."""
NEEDED: Final[Mapping[ModelKind, frozenset[str]]] = {
    DEFAULT_KIND: frozenset({"input", "output"}),
    "completion": frozenset({"input", "output"}),
    "embedding": frozenset({"input"}),
    "image": frozenset({"input", "output"}),
    "rerank": frozenset(),
    "audio": frozenset({"input"}),
}
"""The amounts that a price of each kind of model must state. Kinds without output need no output
price."""


def read_models(
    file: str,
    root: Mapping[str, Mapping[str, Any]],
    providers: Mapping[str, Provider],
    problems: Problems,
) -> dict[str, Model]:
    models: dict[str, Model] = {}
    for name, table in root["models"].items():
        with problems.collect("models"):
            models[name] = _read_model(file, name, table, root["providers"], providers)
    with problems.collect("models"):
        _check_limits(file, root["models"], models, providers)
    with problems.collect("models"):
        _check_aliases(file, root["models"], models.values())
    return models


def _read_model(
    file: str, model_id: str, raw: object, names: Iterable[str], providers: Mapping[str, Provider]
) -> Model:
    """Read a model. `names`: all providers of the file; `providers`: those without errors."""
    place, problems = Place(file, f"[models.{quote_key(model_id, always=True)}]"), Problems()
    _check_id(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"], problems)
    # A key with an error is absent from `settings`, so that it gets no second error.
    kind, limit = settings.get("kind", DEFAULT_KIND), settings.pop("max_output_tokens", None)
    most_input = settings.pop("max_input_tokens", None)
    routes = tuple(Route(*pair) for pair in settings.pop("routes", ()))
    for problem in _find_route_problems(kind, routes, names, providers):
        problems.add(place.error("routes", problem))
    told = {name: settings.pop(name) for name in TOLD}
    needed = _find_needed(kind, told)
    has_output, unit = "output" in needed, _find_unit(kind, needed)
    if limit is not None and not has_output:
        problems.add(place.error("max_output_tokens", NO_OUTPUT))
    prices: PriceList | None = None
    with problems.collect():
        if told["price_image"]:
            prices = read_image_prices(place, told, kind)
        elif "kind" in settings:
            prices = read_price_list(place, told, needed)
    with problems.collect():
        costs = read_costs(place, routes, told, needed)
    problems.raise_all()
    assert prices is not None
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    return Model(
        id=model_id,
        owned_by=owner,
        routes=routes,
        max_output_tokens=limit or MAX_OUTPUT_TOKENS if has_output else 0,
        max_input_tokens=most_input or _find_most_input(kind, unit),
        unit=unit,
        prices=prices,
        costs=costs,
        **settings,
    )


def _find_needed(kind: ModelKind, told: Told) -> frozenset[str]:
    """Return the amounts that a model's prices must state."""
    if told["price_image"]:
        return NEEDED[kind] - {"input", "output"}
    tables = [told[key] for key in ("price", "cost") if isinstance(told[key], dict)]
    amounts = tables[0] if tables else {}
    if kind == "audio" and "minute" in amounts:
        return frozenset({"minute"})
    # An audio model with output tokens transcribes: it writes text, as chat models do.
    return NEEDED[DEFAULT_KIND] if kind == "audio" and "output" in amounts else NEEDED[kind]


def _find_unit(kind: ModelKind, needed: Collection[str]) -> InputUnit:
    if "minute" in needed:
        return "second"
    return "character" if kind == "audio" and "output" not in needed else "token"


def _find_most_input(kind: ModelKind, unit: InputUnit) -> int:
    """Return the default of `max_input_tokens`, in the model's unit."""
    if unit == "second":
        return MAX_SECONDS
    transcribes = kind == "audio" and unit == "token"
    return MAX_SECONDS * TOKENS_PER_SECOND if transcribes else MAX_INPUT_TOKENS


def _find_route_problems(
    kind: ModelKind,
    routes: Sequence[Route],
    names: Iterable[str],
    providers: Mapping[str, Provider],
) -> Iterator[str]:
    """Yield each provider that is not there, and why a model of this kind cannot have these routes."""
    for route in routes:
        if route.provider not in names:
            known = suggest(route.provider, names)
            yield f"there is no [providers.{quote_key(route.provider)}]; {known}"
    served_by = DIALECTS if kind == DEFAULT_KIND else OPENAI_LIKE
    for route in routes:
        provider = providers.get(route.provider)
        if provider is not None and provider.dialect not in served_by:
            known = " or ".join(served_by)
            yield f"kind = {show(kind)} needs a provider of dialect {known}"
            return
        if kind == "embedding" and route.upstream_model != routes[0].upstream_model:
            yield (
                "must name one upstream model: vectors of two models do not mix, so no route can"
                " stand in for another"
            )
            return


def _check_limits(
    file: str,
    raw: Mapping[str, Any],
    models: Mapping[str, Model],
    providers: Mapping[str, Provider],
) -> None:
    """Refuse models without a limit if a provider requires one."""
    lacking = [
        f"[models.{quote_key(model.id, always=True)}]"
        for model in models.values()
        if "max_output_tokens" not in raw[model.id]
        and any(
            providers[one.provider].dialect in LIMITED
            for one in model.routes
            if one.provider in providers
        )
    ]
    if lacking:
        raise ConfigError(
            f"{file}: {', '.join(lacking)} max_output_tokens: is missing; a messages provider has "
            "to be told the most that the model writes, such as max_output_tokens = 64_000"
        )


def _check_aliases(file: str, ids: Iterable[str], models: Iterable[Model]) -> None:
    """Refuse an alias that is the name of another model, or of two."""
    taken = dict.fromkeys(ids, "is a model of its own")
    for model in models:
        for alias in model.aliases:
            if alias in taken:
                place = Place(file, f"[models.{quote_key(model.id, always=True)}]")
                raise place.error("aliases", f"{show(alias)} {taken[alias]}")
            taken[alias] = f"is an alias of {show(model.id)}"


def _check_id(place: Place, model_id: str, raw: object) -> None:
    """Refuse an impossible id, and an id without quotes.

    TOML reads `[models.gpt-4.1]` as table `1` of `gpt-4`.
    """
    try:
        check_model_id(model_id)
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
