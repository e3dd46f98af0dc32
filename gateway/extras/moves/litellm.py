"""LiteLLM's config.yaml as a draft of gateway.toml."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.base.money import MILLION
from gateway.base.process import READ, find_obstacle
from gateway.config.values import MAX_TOKENS
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extras.moves.draft import (
    Draft,
    DraftModel,
    Prices,
    Unusable,
    read_decimal,
    round_price,
)
from gateway.extras.moves.known import (
    AUDIO,
    COMPLETION,
    IMAGE,
    MODES,
    VENDORS,
    Vendor,
    find_kind,
    list_known,
)
from gateway.ledger.records import NotFound, Refused

Json = Mapping[str, Any]

_SAME: Final = {
    **dict.fromkeys(("azure_ai", "azure_text"), "azure"),
    **dict.fromkeys(("cohere_chat",), "cohere"),
    **dict.fromkeys(("ollama_chat",), "ollama"),
    **dict.fromkeys(("hosted_vllm", "lm_studio", "xinference", "llamafile"), "vllm"),
    **dict.fromkeys(("custom_openai", "openai_like", "litellm_proxy", "github"), "vllm"),
    **dict.fromkeys(("text-completion-openai", "custom", "chatgpt"), "openai"),
}
"""Names of vendors that are served as another one is."""
_UNSERVED: Final = {
    "bedrock": "AWS signs each request; put a proxy of AWS's with an OpenAI address in front",
    "sagemaker": "AWS signs each request",
    "vertex_ai": "its address has the project and the region: see `Vertex` in configuration.md",
}
"""Vendors that cannot be carried over, and why."""
_PRICES: Final = {
    "input_cost_per_token": ("input", MILLION),
    "output_cost_per_token": ("output", MILLION),
    "cache_read_input_token_cost": ("cached_input", MILLION),
    "cache_creation_input_token_cost": ("cache_write", MILLION),
    "input_cost_per_audio_token": ("audio_input", MILLION),
    "output_cost_per_audio_token": ("audio_output", MILLION),
    "input_cost_per_character": ("input", MILLION),
    "input_cost_per_query": ("request", 1),
    "input_cost_per_request": ("request", 1),
}
"""Our name of each price, and what makes one of ours of it."""
_IMAGE: Final = ("output_cost_per_image", "input_cost_per_image")
_READ: Final = frozenset(
    {"model", "api_key", "api_base", "base_url", "custom_llm_provider", "mode", "base_model"}
    | {"max_output_tokens", "max_input_tokens", "id", *_PRICES, *_IMAGE, "input_cost_per_second"}
)
"""What is read of a deployment; ids of deployments are of no use here."""
_LIMITED: Final = "limits are of keys and accounts here: `key edit --rpm`, `account edit --tpm`"
_TIMED: Final = "time limits are a provider's here: first_byte_timeout, idle_timeout, total_timeout"
_DEFAULTED: Final = "what callers leave out is the provider's default here"
_ROUTED: Final = (
    "routes are tried in their order here: the next one after 429, 5xx or no connection"
)
_STORED: Final = "keys, balances and limits are in gateway.db here: there is nothing to set"
_CALLED: Final = "calls are in the ledger here: see `usage`, the console, metrics and alerts"
WHY: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("rpm", "tpm", "max_parallel_requests", "global_max_parallel_requests"), _LIMITED
    ),
    **dict.fromkeys(("timeout", "stream_timeout", "request_timeout"), _TIMED),
    **dict.fromkeys(("temperature", "top_p", "max_tokens", "seed", "stop"), _DEFAULTED),
    **dict.fromkeys(("weight", "order", "routing_strategy", "routing_strategy_args"), _ROUTED),
    **dict.fromkeys(("num_retries", "max_retries", "allowed_fails", "cooldown_time"), _ROUTED),
    **dict.fromkeys(("retry_policy", "allowed_fails_policy", "enable_pre_call_checks"), _ROUTED),
    **dict.fromkeys(("redis_host", "redis_port", "redis_password", "redis_url"), _STORED),
    **dict.fromkeys(("database_url", "store_model_in_db", "cache", "cache_params"), _STORED),
    **dict.fromkeys(("callbacks", "success_callback", "failure_callback"), _CALLED),
    **dict.fromkeys(("alerting", "alerting_threshold", "set_verbose", "json_logs"), _CALLED),
    **dict.fromkeys(
        ("context_window_fallbacks", "content_policy_fallbacks"),
        "callers are told that a request is too long or filtered; nothing else is asked then",
    ),
    "api_version": "the address that ends in /openai/v1 takes no version",
    "drop_params": "a model's `leave_out` names the fields that it refuses",
    "master_key": "callers who send it need it as a key: `key adopt ACCOUNT --stdin`",
    "environment_variables": "set them yourself; their values are not copied",
    "max_budget": "budgets are of keys here: `key add --budget`, `key adopt --csv`",
    "include": "run the command for each of those files",
    "telemetry": "there is none here",
}
"""Why a setting is not carried over."""
_NOTHING: Final = "there is nothing like it here"
_ENVIRONMENT: Final = "os.environ/"


def read_text(file: Path) -> str:
    """Read a file of settings. Raises NotFound, Refused."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file}") from error
    except OSError as error:
        reason = find_obstacle(file, READ) or error.strerror
        raise Refused(f"{file}: cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{file}: must be UTF-8 text; the byte at {error.start} is not") from error


def parse_json(file: Path, text: str) -> Any:
    """Parse JSON, with fractions as Decimal. Raises Refused."""
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Refused(f"{file}: is not valid JSON") from error


def adopt(file: Path, environ: Mapping[str, str]) -> Draft:
    """Make a draft of a config.yaml, which may be JSON, too. Raises NotFound, Refused."""
    text = read_text(file)
    raw = parse_json(file, text) if text.lstrip().startswith("{") else _parse_yaml(file, text)
    if not isinstance(raw, dict) or not isinstance(raw.get("model_list"), list):
        raise Refused(f"{file}: has no list model_list, so it is no config.yaml of LiteLLM")
    draft = Draft(f"gateway adopt litellm {file.name}", unpriced_is_free=True)
    settings = {name: _table(raw.get(name)) for name in _SECTIONS}
    deployments = [one for one in raw["model_list"] if isinstance(one, dict)]
    if len(deployments) < len(raw["model_list"]):
        draft.note("model_list", "some entries are no tables")
    # A `*` stands for what no other entry names, so it comes last.
    for one in sorted(deployments, key=lambda one: "*" in str(one.get("model_name"))):
        _add_deployment(draft, one, environ)
    _add_fallbacks(draft, settings)
    for alias, target in _table(settings["router_settings"].get("model_group_alias")).items():
        named = target.get("model") if isinstance(target, dict) else target
        draft.add_alias(str(alias), str(named), "model_group_alias")
    for name, table in settings.items():
        for key, value in table.items():
            if key not in _CARRIED and value not in (None, False, "", [], {}):
                draft.note(f"{name}.{key}", WHY.get(key, _NOTHING))
    for name, value in raw.items():
        is_read = name == "model_list" or (name in _SECTIONS and isinstance(value, dict))
        if value and not is_read:
            draft.note(name, WHY.get(name, _NOTHING))
    return draft


_SECTIONS: Final = ("router_settings", "litellm_settings", "general_settings")
_CARRIED: Final = ("fallbacks", "default_fallbacks", "model_group_alias")


def _parse_yaml(file: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise Refused(
            f"{file}: YAML needs PyYAML: {sys.executable} -m pip install 'PyYAML>=6'. Or write the"
            " file as JSON"
        ) from error
    try:
        # Amounts keep their digits: YAML's floats are read as texts.
        resolvers = {
            first: [(tag, one) for tag, one in found if not tag.endswith(":float")]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
        return yaml.load(text, loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise Refused(f"{file}: is not valid YAML{where}") from error


def _table(value: object) -> Json:
    return value if isinstance(value, dict) else MappingProxyType({})


def _add_deployment(draft: Draft, one: Json, environ: Mapping[str, str]) -> None:
    name, params = str(one.get("model_name") or ""), _table(one.get("litellm_params"))
    info = _table(one.get("model_info"))
    told = {**info, **params, **{k: v for k, v in one.items() if k in ("rpm", "tpm")}}
    try:
        vendor_name, upstream = _split(params)
        # Only of Azure's deployments, which have any name, the callers' name says what they are.
        names = (upstream, name) if vendor_name == "azure" else (upstream,)
        kind = _find_kind(told, params, *names)
        provider = _add_provider(draft, name, vendor_name, params, environ)
        if "*" in name or "*" in upstream:
            _expand(draft, name, (provider, upstream), vendor_name)
            return
        model = draft.add_route(name, (provider, upstream), kind)
    except Unusable as error:
        draft.note(f"model {name}", f"{params.get('model')}: {error}")
        return
    _add_details(draft, name, model, told)
    base = told.get("base_model")
    model.names += [str(base)] if base else []
    model.names += names
    for key, value in told.items():
        if key not in _READ and value not in (None, False, "", [], {}):
            draft.note(key, WHY.get(key, _NOTHING), name)


def _split(params: Json) -> tuple[str, str]:
    """Return the vendor's name and its name of the model. Raises Unusable."""
    whole = str(params.get("model") or "")
    vendor, slash, rest = whole.partition("/")
    told = params.get("custom_llm_provider")
    if told:
        vendor, rest = str(told), whole.removeprefix(f"{told}/")
    elif not slash:
        # LiteLLM knows these names without a vendor in front.
        vendor, rest = ("anthropic" if whole.startswith("claude") else "openai"), whole
    found = _SAME.get(vendor, vendor)
    if found in _UNSERVED or vendor.startswith(("vertex_ai", "sagemaker", "bedrock")):
        raise Unusable(_UNSERVED.get(found) or _UNSERVED[vendor.partition("_")[0]])
    if found not in VENDORS:
        if not params.get("api_base") and not params.get("base_url"):
            raise Unusable(f"the address of {vendor} is not known here: add a provider by hand")
        found = "vllm"
    if not rest.strip("/ "):
        raise Unusable("it names no model, which Azure calls a deployment")
    return found, re.sub(r"^(responses|chat|converse)/", "", rest)


def _find_kind(told: Json, params: Json, *names: str) -> str | None:
    """Return the kind that is told, or that a name tells; None for others. Raises Unusable."""
    mode = str(told.get("mode") or "")
    if mode and mode not in MODES:
        raise Unusable(f"there is no {mode} here")
    if str(params.get("model")).startswith("text-completion-"):
        return COMPLETION
    kind = MODES.get(mode)
    found = (find_kind(one) for one in (str(told.get("base_model")), *names))
    named = next((one for one in found if one != DEFAULT_KIND), None)
    # Old models of completions are often told to be for chat.
    return named if kind is None or (kind == DEFAULT_KIND and named == COMPLETION) else kind


def _add_provider(
    draft: Draft, model: str, vendor_name: str, params: Json, environ: Mapping[str, str]
) -> str:
    vendor = VENDORS[vendor_name]
    address = str(params.get("api_base") or params.get("base_url") or "")
    if address.startswith(_ENVIRONMENT):
        variable = address.removeprefix(_ENVIRONMENT)
        found = environ.get(variable, "")
        if not found:
            label = re.sub(r"[^a-z0-9]+", "-", variable.lower()).strip("-")
            found = f"http://{label}.invalid/v1"
            draft.note("api_base", f"{variable} is not set here: write the address there", model)
        address = found
    address = find_address(vendor, address)
    table: dict[str, object] = {"dialect": vendor.dialect, "base_url": address}
    key = str(params.get("api_key") or "")
    if key.startswith(_ENVIRONMENT):
        variable = key.removeprefix(_ENVIRONMENT)
        draft.variables.setdefault(variable, f"the key of {vendor_name}")
    elif key:
        variable = draft.name_secret(key, f"{vendor_name}_KEY", f"{vendor_name}, for {model}")
    else:
        variable = vendor.variable
        if variable:
            draft.variables.setdefault(variable, f"the key of {vendor_name}")
    if variable:
        table["api_key"] = f"env:{variable}"
    return draft.add_provider(vendor_name, {**table, **vendor.settings})


def find_address(vendor: Vendor, address: str) -> str:
    """Return the address up to and including /v1, as gateway.toml has it. Raises Unusable."""
    address = (address or vendor.base_url).split("?")[0].rstrip("/")
    if not address:
        raise Unusable("it has no api_base: write the provider's address")
    for end in ("/chat/completions", "/messages", "/embeddings", "/completions"):
        address = address.removesuffix(end)
    address = re.sub(r"/openai/deployments/[^/]+$|/openai$", "", address)
    try:
        has_path = bool(urlsplit(address).path)
    except ValueError:
        raise Unusable("its address cannot be read") from None
    return address if has_path or address == vendor.base_url else address + vendor.path


def _expand(draft: Draft, name: str, route: tuple[str, str], vendor_name: str) -> None:
    """Write the models that a `*` stands for, as far as they are known here."""
    provider, upstream = route
    found = [one for one in list_known(vendor_name) if upstream.strip("*/") in ("", vendor_name)]
    for one in found:
        model_id = name.replace("*", one)
        if model_id not in draft.models:
            draft.add_route(model_id, (provider, one)).names.append(one)
    draft.note(
        f"model {name}",
        f"a `*` cannot be asked for here: {len(found)} models of {vendor_name} that are known stand in"
        " its place; delete those that nobody needs and add others",
    )


def _add_details(draft: Draft, name: str, model: DraftModel, told: Json) -> None:
    """Take the prices and the limits that a deployment tells; those of its first one count."""
    model.max_output = model.max_output or _read_count(told.get("max_output_tokens"))
    model.max_input = model.max_input or _read_count(told.get("max_input_tokens"))
    prices: Prices = {}
    for key, (ours, times) in _PRICES.items():
        amount = read_decimal(told.get(key))
        if amount is not None:
            prices[ours] = round_price(amount * times)
        elif told.get(key) is not None:
            draft.note(key, "is no number", name)
    if told.get("input_cost_per_second") is not None:
        second = read_decimal(told["input_cost_per_second"])
        if model.kind == AUDIO and second is not None:
            prices = {"minute": round_price(second * 60)}
        else:
            draft.note("input_cost_per_second", "a second of a machine has no price here", name)
    image = next((one for key in _IMAGE if (one := read_decimal(told.get(key)))), None)
    if image is not None and model.kind == IMAGE:
        prices, model.image = {}, model.image or round_price(image)
    if model.price is None:
        model.price = prices or None
    elif prices and prices != model.price:
        draft.note("prices", "deployments of one name have one price here, the first one's", name)


def _read_count(value: object) -> int | None:
    """Read a number of tokens that gateway.toml takes; None for others."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= MAX_TOKENS else None


def _add_fallbacks(draft: Draft, settings: Mapping[str, Json]) -> None:
    for section in ("router_settings", "litellm_settings"):
        for model_id, others in _list_pairs(settings[section].get("fallbacks")):
            for one in list(draft.models) if model_id == "*" else [model_id]:
                for other in others:
                    draft.add_fallback(one, other, "fallbacks")
        for other in map(str, _list(settings[section].get("default_fallbacks"))):
            for one in list(draft.models):
                if one != other:
                    draft.add_fallback(one, other, "default_fallbacks")


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value] if value else ()


def _list_pairs(value: object) -> Iterator[tuple[str, list[str]]]:
    for one in _list(value):
        for model_id, others in _table(one).items():
            yield str(model_id), list(map(str, _list(others)))
