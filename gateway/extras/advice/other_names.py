"""The names that other programs' files have for settings of gateway.toml, so that errors say what was meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.extension import find_dialects, find_kinds

_OTHERS: Final[Mapping[str, str]] = {
    # Keys of prices, per million tokens or not
    "input": "prompt in prompt_price prompt_cost prompt_tokens input_price input_cost input_tokens"
    " input_cost_per_token input_cost_per_million_tokens",
    "output": "completion out completion_price completion_cost completion_tokens output_price"
    " output_cost output_tokens output_cost_per_token output_cost_per_million_tokens",
    "cached_input": "cache_read cached cached_tokens input_cache_read cache_read_input_token_cost",
    "cache_write": "cache_creation input_cache_write cache_creation_input_token_cost",
    "minute": "per_minute",
    "request": "per_request",
    # Keys of providers, models and limits
    "api_key": "key apikey api_keys keys token api_token api_key_env secret auth",
    "base_url": "url api_base api_base_url baseurl api_url endpoint host address",
    "dialect": "type api api_type format protocol kind provider",
    "kind": "type mode task",
    "routes": "route model upstream upstreams upstream_model provider providers deployments",
    "aliases": "alias names",
    "price": "prices pricing",
    "max_input_tokens": "context context_window context_length max_context max_context_tokens",
    "max_output_tokens": "max_tokens max_completion_tokens",
    "requests_per_minute": "rpm",
    "tokens_per_minute": "tpm",
    "concurrency": "max_parallel_requests",
    "total_timeout": "timeout request_timeout",
    # Tables
    "providers": "provider channels backends",
    "models": "model model_list",
    "storage": "database db",
}
"""Other programs' names, by the name of the setting."""
_LIKE: Final = 0.65
"""How like a name a typing error has to be: "moderation" is not meant for "completion"."""


def guess(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that may be meant by another one, or by a typing error."""
    import difflib  # 0.2 MiB, for errors only

    names, plain = list(known), name.lower().replace("-", "_").replace(" ", "_")
    others = _find_others(names)
    found = [one for one in names if plain in (one, *others.get(one, "").split())]
    return next(iter((*found, *difflib.get_close_matches(name, names, n=1, cutoff=_LIKE))), None)


def _find_others(names: list[str]) -> Mapping[str, str]:
    """Return what other programs call these names, which may be all dialects or all kinds."""
    for known in (find_dialects(), find_kinds()):
        if names == [*known]:
            return {name: one.others for name, one in known.items()}
    return _OTHERS
