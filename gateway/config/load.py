"""Read gateway.toml into frozen records, checked as a whole. `settings` lists its keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.config.prices import NO_OUTPUT, read_price_list
from gateway.config.reader import (
    ConfigError,
    Place,
    parse_toml,
    quote_key,
    read_table,
    show,
    suggest,
)
from gateway.config.records import (
    Billing,
    Config,
    Limits,
    Model,
    Provider,
    Route,
    Server,
    Storage,
)
from gateway.config.settings import SETTINGS
from gateway.config.values import check_model_id, check_proxy, resolve_secret
from gateway.dialects import DEMO, EMBEDDERS, UPSTREAMS

MAX_OUTPUT_TOKENS: Final = 128_000
"""The output limit of a model without one of its own: the largest that vendors offer."""


def load_config(path: Path, environ: Mapping[str, str], *, read_keys: bool = True) -> Config:
    """Read gateway.toml.

    With `read_keys` False no provider's key is resolved, and every provider with a key is off. This
    is for operators' verbs, which may run without the server's variables and credentials.

    Raises:
        ConfigError: describes the first error in the file.
    """
    file = str(path)
    folder = path.absolute().parent
    root = _read_root(file, parse_toml(path))

    def resolve(value: str | None) -> tuple[str, str | None]:
        if value is None:
            return "", None
        if not read_keys:
            return "", "its key was not looked up"
        return resolve_secret(value, folder, environ)

    providers = {n: _read_provider(file, n, raw, resolve) for n, raw in root["providers"].items()}
    models = {n: _read_model(file, n, raw, providers) for n, raw in root["models"].items()}
    _check_limits(file, root["models"], models, providers)
    billing, limits, server = root["billing"], root["limits"], Server(**root["server"])
    return Config(
        path=path,
        server=server,
        storage=Storage(folder / root["storage"]["path"]),
        billing=Billing(
            demo_credit_nano=billing.pop("demo_credit"),
            low_balance_nano=billing.pop("low_balance"),
            **billing,
        ),
        account_limits=_find_account_limits(limits.pop("account_in_flight"), server),
        limits=Limits(**limits),
        providers=MappingProxyType(providers),
        models=MappingProxyType(models),
    )


def _find_account_limits(share: int | None, server: Server) -> Limits:
    """Return the defaults for accounts: by default one may use half of the gateway."""
    most = max(server.max_in_flight // 2, 1) if share is None else share
    return Limits(requests_per_minute=0, tokens_per_minute=0, concurrency=most)


_SECTIONS = ("server", "storage", "billing", "limits")
_COLLECTIONS = ("providers", "models")
_SECRETS = ("api_key", "proxy")
"""The keys of a provider that may name a variable or a file."""


def _read_root(file: str, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Read the fixed tables; return the named ones (providers, models) unread."""
    for name, value in raw.items():
        if name not in (*_SECTIONS, *_COLLECTIONS):
            kind = "table" if isinstance(value, dict) else "key"
            shown = f"[{quote_key(name)}]" if kind == "table" else quote_key(name)
            known = suggest(name, (*_SECTIONS, *_COLLECTIONS))
            raise ConfigError(f"{file}: {shown}: unknown {kind}; {known}")
        if not isinstance(value, dict):
            raise ConfigError(f"{file}: {name}: must be a table, not {show(value)}")
    sections = {
        name: read_table(Place(file, f"[{name}]"), raw.get(name, {}), SETTINGS[name])
        for name in _SECTIONS
    }
    return sections | {name: raw.get(name, {}) for name in _COLLECTIONS}


def _read_provider(
    file: str, name: str, raw: object, resolve: Callable[[str | None], tuple[str, str | None]]
) -> Provider:
    """Read a provider. `resolve` returns a secret, or "" and why the provider is off without it."""
    place = Place(file, f"[providers.{quote_key(name)}]")
    if not name.isprintable() or not name.strip() or "/" in name:
        raise place.error("", "a provider's name must be printable text without a slash")
    settings = read_table(place, raw, SETTINGS["providers.NAME"])
    if settings["dialect"] == DEMO:
        for key in ("base_url", *_SECRETS):
            if settings[key] is not None:
                raise place.error(key, "must be left out: the demo provider is built in")
        settings["base_url"] = ""
    elif settings["base_url"] is None:
        raise place.error(
            "base_url", "is missing; it is " + SETTINGS["providers.NAME"]["base_url"].doc
        )
    off = None
    for key in _SECRETS:
        try:
            settings[key], reason = resolve(settings[key])
            if key == "proxy" and settings[key]:
                check_proxy(settings[key])
        except ValueError as error:
            raise place.error(key, str(error)) from error
        off = off or reason
    return Provider(name=name, off=off, **settings)


def _read_model(file: str, model_id: str, raw: object, providers: Mapping[str, Provider]) -> Model:
    place = Place(file, f"[models.{quote_key(model_id, always=True)}]")
    try:
        check_model_id(model_id)
    except ValueError as error:
        raise place.error("", str(error)) from error
    _check_quoting(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"])
    routes = tuple(Route(*pair) for pair in settings.pop("routes"))
    for route in routes:
        if route.provider not in providers:
            known = suggest(route.provider, providers)
            raise place.error(
                "routes", f"there is no [providers.{quote_key(route.provider)}]; {known}"
            )
    embeds, limit = settings["kind"] == "embedding", settings.pop("max_output_tokens")
    if embeds:
        _check_embedding(place, limit, routes, providers)
    prices = read_price_list(
        place, settings.pop("price"), settings.pop("price_when"), has_output=not embeds
    )
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    return Model(
        id=model_id,
        owned_by=owner,
        routes=routes,
        max_output_tokens=0 if embeds else limit or MAX_OUTPUT_TOKENS,
        prices=prices,
        **settings,
    )


def _check_embedding(
    place: Place, limit: int | None, routes: tuple[Route, ...], providers: Mapping[str, Provider]
) -> None:
    """Refuse what a model that makes embeddings cannot have."""
    if limit is not None:
        raise place.error("max_output_tokens", NO_OUTPUT)
    for route in routes:
        if providers[route.provider].dialect not in EMBEDDERS:
            known = " or ".join(sorted(EMBEDDERS))
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
        and any(UPSTREAMS[providers[one.provider].dialect].requires_limit for one in model.routes)
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
