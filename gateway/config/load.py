"""Read gateway.toml into frozen records, checked as a whole. `settings` lists its keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.config.prices import NO_OUTPUT, read_costs, read_price_list
from gateway.config.providers import Resolved, read_provider
from gateway.config.reader import (
    ConfigError,
    Place,
    Problems,
    parse_table,
    parse_toml,
    quote_key,
    read_table,
    show,
    suggest,
)
from gateway.config.records import (
    Billing,
    Config,
    Console,
    Limits,
    Metrics,
    Model,
    Provider,
    Route,
    Server,
    Storage,
)
from gateway.config.secrets import find_literals, resolve_secret
from gateway.config.settings import SETTINGS
from gateway.config.storage import NO_ALERTS, check_backups, read_alerts, read_storage
from gateway.config.values import check_model_id
from gateway.dialects.exchanges import EMBEDDERS, UPSTREAMS
from gateway.prices import PriceList

MAX_OUTPUT_TOKENS: Final = 128_000
"""The output limit of a model without one of its own: the largest that vendors offer."""


def load_config(path: Path, environ: Mapping[str, str], *, read_keys: bool = True) -> Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is resolved, and every provider with a key is off. This
    is for operators' verbs, which may run without the server's variables and credentials.

    Raises:
        ConfigError: has all errors of the file, in its order.
    """
    return _read_config(path, parse_toml(path), environ, read_keys=read_keys)


def load_storage(path: Path, environ: Mapping[str, str]) -> Config:
    """Read where the database is and leave the rest at its defaults: it may be broken.

    Raises:
        ConfigError: the file cannot be read, or its table [storage] is wrong.
    """
    table = parse_table(path, "storage")
    return _read_config(path, {"storage": table}, environ, read_keys=False)


def _read_config(
    path: Path, raw: Mapping[str, Any], environ: Mapping[str, str], *, read_keys: bool
) -> Config:
    file = str(path)
    folder = path.absolute().parent
    problems = Problems(raw)
    root = _read_root(file, raw, problems)
    look_up = partial(resolve_secret, folder=folder, environ=environ)

    def resolve(value: str | None) -> Resolved:
        if value is None:
            return "", None
        if not read_keys:
            return "", "its key was not looked up"
        return look_up(value)

    providers: dict[str, Provider] = {}
    for name, table in root["providers"].items():
        with problems.collect("providers"):
            providers[name] = read_provider(file, name, table, resolve)
    models = _read_models(file, root, providers, problems)
    with problems.collect("console"):
        _check_console(file, root)
    storage: Storage | None = None
    if "storage" in root:
        with problems.collect("storage"):
            table, place = raw.get("storage", {}), Place(file, "[storage]")
            storage = read_storage(place, table, root["storage"], folder, look_up)
    alerts = NO_ALERTS
    if "alerts" in root:
        with problems.collect("alerts"):
            place = Place(file, "[alerts]")
            alerts = read_alerts(place, root["alerts"], look_up if read_keys else None)
            check_backups(place, alerts, storage)
    problems.raise_all()
    assert storage is not None
    config = _make_config(path, storage, root, providers, models)
    return dataclasses.replace(config, alerts=alerts, literals=tuple(find_literals(raw)))


def _make_config(
    path: Path,
    storage: Storage,
    root: Mapping[str, dict[str, Any]],
    providers: Mapping[str, Provider],
    models: Mapping[str, Model],
) -> Config:
    billing, limits, server = root["billing"], root["limits"], Server(**root["server"])
    return Config(
        path=path,
        server=server,
        storage=storage,
        billing=Billing(
            demo_credit_nano=billing.pop("demo_credit"),
            low_balance_nano=billing.pop("low_balance"),
            **billing,
        ),
        console=Console(**root["console"]),
        account_limits=_find_account_limits(limits.pop("account_in_flight"), server),
        limits=Limits(**limits),
        metrics=Metrics(**root["metrics"]),
        alerts=NO_ALERTS,
        providers=MappingProxyType(providers),
        models=MappingProxyType(models),
    )


def _check_console(file: str, root: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a header that nobody is trusted to send. A table with an error of its own is absent."""
    header = root.get("console", {}).get("identity_header")
    if header is not None and root.get("server", {}).get("trusted_proxies") == ():
        raise Place(file, "[console]").error(
            "identity_header",
            "needs trusted_proxies under [server]: the header counts only if one of them sends it",
        )


def _find_account_limits(share: int | None, server: Server) -> Limits:
    """Return the defaults for accounts: by default one may use half of the gateway."""
    most = max(server.max_in_flight // 2, 1) if share is None else share
    return Limits(requests_per_minute=0, tokens_per_minute=0, concurrency=most)


_SECTIONS = ("server", "storage", "billing", "console", "limits", "metrics", "alerts")
_COLLECTIONS = ("providers", "models")


def _read_root(file: str, raw: Mapping[str, Any], problems: Problems) -> dict[str, dict[str, Any]]:
    """Read the fixed tables; return the named ones (providers, models) unread."""
    for name, value in raw.items():
        with problems.collect(name):
            _check_root_name(file, name, value)
    # A misnamed table may be meant to hold the providers, without which each model looks wrong.
    root = {name: {} if problems else raw.get(name, {}) for name in _COLLECTIONS}
    for name in _SECTIONS:
        table = raw.get(name, {})
        if isinstance(table, dict):
            with problems.collect(name):
                root[name] = read_table(Place(file, f"[{name}]"), table, SETTINGS[name])
    return root


def _check_root_name(file: str, name: str, value: object) -> None:
    """Refuse a name that the file cannot have at its top."""
    if name not in (*_SECTIONS, *_COLLECTIONS):
        kind = "table" if isinstance(value, dict) else "key"
        shown = f"[{quote_key(name)}]" if kind == "table" else quote_key(name)
        known = suggest(name, (*_SECTIONS, *_COLLECTIONS))
        raise ConfigError(f"{file}: {shown}: unknown {kind}; {known}")
    if not isinstance(value, dict):
        raise ConfigError(f"{file}: {name}: must be a table, not {show(value)}")


_PRICES: Final = ("price", "price_when", "tool_prices", "cost", "cost_when", "tool_costs")


def _read_models(
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
    return models


def _read_model(
    file: str, model_id: str, raw: object, names: Iterable[str], providers: Mapping[str, Provider]
) -> Model:
    """Read a model. `names`: all providers of the file; `providers`: those without errors."""
    place, problems = Place(file, f"[models.{quote_key(model_id, always=True)}]"), Problems()
    try:
        check_model_id(model_id)
    except ValueError as error:
        raise place.error("", str(error)) from error
    _check_quoting(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"], problems)
    routes = tuple(Route(*pair) for pair in settings.pop("routes", ()))
    for route in routes:
        with problems.collect():
            _check_route(place, route, names)
    embeds, limit = settings.get("kind") == "embedding", settings.pop("max_output_tokens", None)
    if embeds:
        with problems.collect():
            _check_embedding(place, limit, routes, providers)
    prices: PriceList | None = None
    price, rules, tools, *of_costs = (settings.pop(name, None) for name in _PRICES)
    if "kind" in settings and price is not None:
        with problems.collect():
            prices = read_price_list(place, price, rules, tools, has_output=not embeds)
    with problems.collect():
        costs = read_costs(place, routes, *of_costs, has_output=not embeds)
    problems.raise_all()
    assert prices is not None
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    return Model(
        id=model_id,
        owned_by=owner,
        routes=routes,
        max_output_tokens=0 if embeds else limit or MAX_OUTPUT_TOKENS,
        prices=prices,
        costs=costs,
        **settings,
    )


def _check_route(place: Place, route: Route, names: Iterable[str]) -> None:
    if route.provider not in names:
        known = suggest(route.provider, names)
        raise place.error("routes", f"there is no [providers.{quote_key(route.provider)}]; {known}")


def _check_embedding(
    place: Place, limit: int | None, routes: tuple[Route, ...], providers: Mapping[str, Provider]
) -> None:
    """Refuse what a model that makes embeddings cannot have."""
    if limit is not None:
        raise place.error("max_output_tokens", NO_OUTPUT)
    for route in routes:
        provider = providers.get(route.provider)
        if provider is not None and provider.dialect not in EMBEDDERS:
            known = " or ".join(EMBEDDERS)
            raise place.error("routes", f"embeddings need a provider of dialect {known}")
        if route.upstream_model != routes[0].upstream_model:
            raise place.error(
                "routes",
                "must name one upstream model: vectors of two models do not mix, so no route can"
                " stand in for another",
            )


def _check_limits(
    file: str,
    raw: Mapping[str, Any],
    models: Mapping[str, Model],
    providers: Mapping[str, Provider],
) -> None:
    """Refuse models without a limit of their own where a provider has to be told one."""
    lacking = [
        f"[models.{quote_key(model.id, always=True)}]"
        for model in models.values()
        if "max_output_tokens" not in raw[model.id]
        and any(
            UPSTREAMS[providers[one.provider].dialect].requires_limit
            for one in model.routes
            if one.provider in providers
        )
    ]
    if lacking:
        raise ConfigError(
            f"{file}: {', '.join(lacking)} max_output_tokens: is missing; a messages provider has "
            "to be told the limit"
        )


def _check_quoting(place: Place, model_id: str, raw: object) -> None:
    """Refuse a model id that lacks quotes: TOML reads `[models.gpt-4.1]` as table `1` of `gpt-4`."""
    inner = raw if isinstance(raw, dict) else {}
    for key, value in inner.items():
        if isinstance(value, dict) and key not in SETTINGS["models.ID"]:
            raise place.error(
                quote_key(key),
                "unknown table; put a model id with a dot in quotes: "
                f"[models.{quote_key(f'{model_id}.{key}', always=True)}]",
            )


MAX_NAMED: Final = 5
"""Models or providers that a description names; it is a line of the log, and an event for ever."""


def keep_fixed(running: Config, read: Config) -> tuple[Config, tuple[str, ...]]:
    """Return `read` with what cannot change at run time as it is, and the keys that wait for a restart.

    The addresses and the database are open. The currency is the label of all that is stored as numbers:
    an amount must not change its meaning between two pages.
    """
    pairs = {
        "server.host": (running.server.host, read.server.host),
        "server.port": (running.server.port, read.server.port),
        "storage.path": (running.storage.path, read.storage.path),
        "storage.url": (running.storage.url, read.storage.url),
        "storage.retention_months": (
            running.storage.retention_months,
            read.storage.retention_months,
        ),
        "billing.currency": (running.billing.currency, read.billing.currency),
        "metrics.listen": (running.metrics.listen, read.metrics.listen),
    }
    server = dataclasses.replace(read.server, host=running.server.host, port=running.server.port)
    billing = dataclasses.replace(read.billing, currency=running.billing.currency)
    kept = dataclasses.replace(
        read, server=server, billing=billing, storage=running.storage, metrics=running.metrics
    )
    return kept, tuple(key for key, (old, new) in pairs.items() if old != new)


def describe_changes(before: Config, after: Config) -> str:
    """Say what is different, in one line, by the names of tables alone: values may be secrets."""
    parts = [
        _compare("models", before.models, after.models),
        _compare("providers", before.providers, after.providers),
        *(
            f"[{table}] changed"
            for table, old, new in (
                ("server", before.server, after.server),
                ("billing", before.billing, after.billing),
                ("console", before.console, after.console),
                ("alerts", before.alerts, after.alerts),
                ("limits", _list_limits(before), _list_limits(after)),
            )
            if old != new
        ),
        *(
            f"provider {one.name} is off: {one.off}"
            for one in after.providers.values()
            if one.off is not None and before.providers.get(one.name) != one
        ),
    ]
    return "; ".join(filter(None, parts)) or "nothing changed"


def _compare(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    both = before.keys() & after.keys()
    groups = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in both and before[name] != after[name]],
    }
    told = [f"{len(names)} {how} ({_name(names)})" for how, names in groups.items() if names]
    return f"{what}: {', '.join(told)}" if told else ""


def _name(names: Collection[str]) -> str:
    more = ["…"] if len(names) > MAX_NAMED else []
    return ", ".join([*list(names)[:MAX_NAMED], *more])


def _list_limits(config: Config) -> object:
    return config.limits, config.account_limits
