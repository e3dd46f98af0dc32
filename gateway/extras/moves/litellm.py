"""LiteLLM's config.yaml as a draft of gateway.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.config.reader import looks_secret, quote_key
from gateway.config.secrets import SECRET_HEADER
from gateway.config.values import headers
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extension import find_dialects
from gateway.extras.moves.costs import is_price, read_details
from gateway.extras.moves.draft import Draft, DraftModel, Unusable
from gateway.extras.moves.known import (
    AZURE_PATH,
    COMPLETION,
    MODES,
    RESPONSES,
    VENDORS,
    Vendor,
    find_kind,
    is_for_responses,
    list_known,
)
from gateway.extras.moves.sources import (
    Json,
    parse_json,
    parse_yaml,
    read_file,
    read_table,
    read_text,
)
from gateway.ledger.records import Refused

_SAME: Final = {
    **dict.fromkeys(("azure_text",), "azure"),
    **dict.fromkeys(("cohere_chat",), "cohere"),
    **dict.fromkeys(("ollama_chat",), "ollama"),
    **dict.fromkeys(("vllm", "lm_studio", "xinference", "llamafile"), "hosted_vllm"),
    **dict.fromkeys(("custom_openai", "openai_like", "litellm_proxy"), "hosted_vllm"),
    **dict.fromkeys(("text-completion-openai",), "openai"),
}
"""Names of vendors that are treated as another vendor."""
_UNSERVED: Final = {
    "bedrock": "AWS signs each request; put a proxy of AWS's with an OpenAI address in front",
    "sagemaker": "AWS signs each request",
    "vertex_ai": "its address has the project and the region: see `Vertex` in configuration.md",
}
"""Vendors that cannot be carried over, and why."""
_READ: Final = frozenset(
    {"model", "api_key", "api_base", "base_url", "custom_llm_provider", "mode", "base_model"}
    | {"max_output_tokens", "max_input_tokens", "id", "extra_headers", "organization"}
)
"""Fields of a deployment that are read; ids of deployments are of no use here."""
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
_PRICED: Final = "this price is not carried over: see `price_when` in charges.md"
_ENVIRONMENT: Final = "os.environ/"


def adopt(file: Path, environ: Mapping[str, str]) -> Draft:
    """Make a draft of a config.yaml, which may be JSON, too. Raises NotFound, Refused."""
    text = read_file(file)
    raw = parse_json(file, text) if text.lstrip().startswith("{") else parse_yaml(file, text)
    if not isinstance(raw, dict) or not isinstance(raw.get("model_list"), list):
        raise Refused(f"{file}: has no list model_list, so it is no config.yaml of LiteLLM")
    draft = Draft(f"gateway adopt litellm {file.name}")
    draft.reserved |= set(_NAMED.findall(text))
    credentials = {
        read_text(one.get("credential_name")): read_table(one.get("credential_values"))
        for one in map(read_table, _list(raw.get("credential_list")))
    }
    settings = {name: read_table(raw.get(name)) for name in _SECTIONS}
    deployments = [one for one in raw["model_list"] if isinstance(one, dict)]
    if len(deployments) < len(raw["model_list"]):
        draft.note("model_list", "some entries are no tables")
    # A `*` stands for models that no other entry names, so such entries come last.
    for one in sorted(deployments, key=lambda one: "*" in read_text(one.get("model_name"))):
        params = _take_credential(draft, read_table(one.get("litellm_params")), credentials)
        _add_deployment(draft, {**one, "litellm_params": params}, environ)
    _add_fallbacks(draft, settings)
    _add_aliases(draft, settings["router_settings"].get("model_group_alias"))
    _note_rest(draft, raw, settings)
    return draft


def _add_aliases(draft: Draft, told: object) -> None:
    if told and not isinstance(told, dict):
        draft.note("model_group_alias", "is no table of names")
    for alias, target in read_table(told).items():
        named = target.get("model") if isinstance(target, dict) else target
        draft.add_alias(read_text(alias), read_text(named), "model_group_alias")


def _note_rest(draft: Draft, raw: Json, settings: Mapping[str, Json]) -> None:
    for name, table in settings.items():
        for key, value in table.items():
            if key not in _CARRIED and value not in _EMPTY:
                draft.note(f"{name}.{key}", WHY.get(key, _NOTHING))
    for name, value in raw.items():
        is_read = name in _LISTS or (name in _SECTIONS and isinstance(value, dict))
        if value and not is_read:
            draft.note(name, WHY.get(name, _NOTHING))


_EMPTY: Final[tuple[object, ...]] = (None, False, "", [], {})
_LISTS: Final = ("model_list", "credential_list")
_SECTIONS: Final = ("router_settings", "litellm_settings", "general_settings")
_CARRIED: Final = ("fallbacks", "default_fallbacks", "model_group_alias")


def _add_deployment(draft: Draft, one: Json, environ: Mapping[str, str]) -> None:
    name, params = read_text(one.get("model_name")), read_table(one.get("litellm_params"))
    info = read_table(one.get("model_info"))
    if one.get("model_info") and not info:
        draft.note("model_info", "is no table", name)
    told = {**info, **params, **{k: v for k, v in one.items() if k in ("rpm", "tpm")}}
    try:
        vendor_name, upstream = _split(params)
        whole = read_text(params["model"])
        # Azure's deployments have arbitrary names, so only there the callers' name may tell the kind.
        names = (upstream, name) if vendor_name.startswith("azure") else (upstream,)
        kind = _find_kind(told, params, *names)
        provider: Json = _make_provider(draft, name, vendor_name, params, environ)
        is_pattern = "*" in name or "*" in upstream
        if is_pattern:
            _expand(draft, name, upstream, vendor_name, provider)
        else:
            first = draft.models.get(name)
            model = DraftModel(kind or (first.kind if first else find_kind(upstream)))
            model.names += filter(None, (read_text(told.get("base_model")), *names))
            read_details(draft, name, model, told)
            is_told = told.get("mode") == RESPONSES or _PREFIXED.search(whole)
            is_newer = is_told or is_for_responses(vendor_name, model.names)
            if is_newer and model.kind == DEFAULT_KIND:
                provider = choose_responses(draft, name, provider)
            place = draft.add_provider(vendor_name, provider)
            draft.add_deployment(name, (place, upstream), model)
    except Unusable as error:
        draft.note(f"model {name}", f"{read_text(params.get('model')) or 'no model'}: {error}")
        return
    for key, value in told.items():
        is_read = key in _READ or (is_price(key) and not is_pattern)
        if not is_read and value not in _EMPTY:
            why = _PRICED if "_cost" in str(key) else _NOTHING
            draft.note(str(key), WHY.get(key, why), name)


def _take_credential(draft: Draft, params: Json, credentials: Mapping[str, Json]) -> Json:
    """Return the settings of a deployment with those of the credential that it names."""
    name = read_text(params.get("litellm_credential_name"))
    if not name:
        return params
    rest = {key: one for key, one in params.items() if key != "litellm_credential_name"}
    if name in credentials:
        return {**credentials[name], **rest}
    variable = f"{re.sub('[^A-Z0-9]+', '_', name.upper()).strip('_') or 'CREDENTIAL'}_KEY"
    draft.note("litellm_credential_name", f"is not in the file: set {variable}", name)
    return {"api_key": f"{_ENVIRONMENT}{variable}", **rest}


def choose_responses(draft: Draft, name: str, provider: Mapping[str, object]) -> Json:
    """Return a chat provider's settings for the Responses API, or unchanged if that is not possible."""
    dialect = find_dialects().get(str(provider["dialect"]))
    if dialect is None or not dialect.is_openai_like:
        return provider
    if RESPONSES not in find_dialects():
        draft.note("Responses", "OpenAI has no other API for it, and this gateway lacks that", name)
        return provider
    return {**provider, "dialect": RESPONSES}


_PREFIXED: Final = re.compile(r"(^|/)responses/")


def _split(params: Json) -> tuple[str, str]:
    """Return the vendor's name and its name of the model. Raises Unusable."""
    whole = read_text(params.get("model"))
    vendor, slash, rest = whole.partition("/")
    stated = read_text(params.get("custom_llm_provider"))
    if stated:
        vendor, rest = stated, whole.removeprefix(f"{stated}/")
    elif not slash:
        # LiteLLM knows these names without a vendor in front.
        vendor, rest = ("anthropic" if whole.startswith("claude") else "openai"), whole
    found = _SAME.get(vendor, vendor)
    if found in _UNSERVED or vendor.startswith(("vertex_ai", "sagemaker", "bedrock")):
        raise Unusable(_UNSERVED.get(found) or _UNSERVED[vendor.partition("_")[0]])
    if found not in VENDORS:
        if not params.get("api_base") and not params.get("base_url"):
            raise Unusable(f"the address of {vendor} is not known here: add a provider by hand")
        found = "hosted_vllm"
    if not rest.strip("/ "):
        raise Unusable("litellm_params.model names no model")
    if found == "azure_ai" and rest.startswith("claude"):
        found = "azure_ai/claude"
    return found, re.sub(r"^(responses|chat|converse)/", "", rest)


def _find_kind(told: Json, params: Json, *names: str) -> str | None:
    """Return the stated kind, or that which a name tells; None if neither does. Raises Unusable."""
    mode = read_text(told.get("mode"))
    if mode and mode not in MODES:
        raise Unusable(f"there is no {mode} here")
    if read_text(params.get("model")).startswith("text-completion-"):
        return COMPLETION
    kind = MODES.get(mode)
    found = (find_kind(one) for one in (read_text(told.get("base_model")), *names))
    named = next((one for one in found if one != DEFAULT_KIND), None)
    # Old completion models are often declared as chat models.
    return named if kind is None or (kind == DEFAULT_KIND and named == COMPLETION) else kind


def _make_provider(
    draft: Draft, model: str, vendor_name: str, params: Json, environ: Mapping[str, str]
) -> dict[str, object]:
    """Make a provider's table. Raises Unusable."""
    vendor = VENDORS[vendor_name]
    address = read_text(params.get("api_base") or params.get("base_url"))
    # LiteLLM reads such a variable if the file has no address.
    usual = f"{_find_maker(vendor_name, params).upper()}_API_BASE"
    if not address and (environ.get(usual) or not vendor.base_url):
        address = _ENVIRONMENT + usual
    if address.startswith(_ENVIRONMENT):
        variable = address.removeprefix(_ENVIRONMENT)
        address = environ.get(variable, "")
        if not address:
            label = re.sub(r"[^a-z0-9]+", "-", variable.lower()).strip("-") or "unset"
            address = f"https://{label}.invalid{'' if vendor.path else '/v1'}"
            draft.note("api_base", f"{variable} is not set here: write the address there", model)
    table: dict[str, object] = {
        "dialect": vendor.dialect,
        "base_url": find_address(vendor, address),
    }
    key = read_text(params.get("api_key"))
    variable = key.removeprefix(_ENVIRONMENT) if key.startswith(_ENVIRONMENT) else ""
    if key and not _VARIABLE.fullmatch(variable):
        variable = draft.name_secret(key, f"{vendor_name}_KEY", f"{vendor_name}, for {model}")
    variable = variable or vendor.variable
    if variable:
        draft.variables.setdefault(variable, f"the key of {vendor_name}")
        table["api_key"] = f"env:{variable}"
    headers = _read_headers(draft, model, params)
    return {**table, **vendor.settings, **({"headers": headers} if headers else {})}


def _find_maker(vendor_name: str, params: Json) -> str:
    """Return the vendor's name as LiteLLM's variables have it."""
    maker = read_text(params.get("custom_llm_provider") or params.get("model")).partition("/")[0]
    return (
        maker if _SAME.get(maker) == vendor_name == "hosted_vllm" else vendor_name.partition("/")[0]
    )


def _read_headers(draft: Draft, model: str, params: Json) -> dict[str, str]:
    """Return the headers of each request, without those with variables or possible secrets."""
    told = dict(read_table(params.get("extra_headers")))
    if params.get("organization"):
        told.setdefault("OpenAI-Organization", params["organization"])
    found: dict[str, str] = {}
    for name, value in told.items():
        one, shown = {str(name): read_text(value)}, f"header {quote_key(str(name))}"
        try:
            headers(one)
        except ValueError as error:
            draft.note(shown, str(error), model)
            continue
        if SECRET_HEADER.search(str(name)) or any(map(looks_secret, (str(name), read_text(value)))):
            why = "may be a secret, so its value is not copied: write it as one of the `headers`"
            draft.note(shown, why, model)
        elif one[str(name)].startswith(_ENVIRONMENT):
            why = "is a variable, which no header is here: write its value as one of the `headers`"
            draft.note(shown, why, model)
        else:
            found |= one
    return found


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMED: Final = re.compile(rf"{_ENVIRONMENT}({_VARIABLE.pattern})")


def find_address(vendor: Vendor, address: str, *, is_root: bool = False) -> str:
    """Return the address up to and including /v1, as gateway.toml has it. Raises Unusable.

    The vendor's path is appended to an address without one, and to every root address.
    """
    if not address and not vendor.base_url:
        raise Unusable("it has no address: write the provider's `base_url`")
    if not address:
        return vendor.base_url
    address = re.sub(r"\?api-version=.*", "", address).rstrip("/")
    for end in ("/chat/completions", "/messages", "/embeddings", "/completions"):
        address = address.removesuffix(end)
    if vendor.path == AZURE_PATH:
        address = re.sub(r"/models$|/openai(/deployments/[^/]+)?$", "", address)
    try:
        has_path = bool(urlsplit(address).path)
    except ValueError:
        raise Unusable("its address cannot be read") from None
    if not has_path or (vendor.path and (is_root or vendor.is_root)):
        root = vendor.path.removesuffix("/v1")
        address = address.removesuffix("/v1").removesuffix(root) + vendor.path
    return address


def _expand(
    draft: Draft, name: str, upstream: str, vendor_name: str, provider: Mapping[str, object]
) -> None:
    """Add the models that a `*` stands for, as far as they are known here. Raises Unusable."""
    if name.count("*") != 1 or upstream.count("*") != 1:
        raise Unusable("a `*` cannot be asked for here: write each model")
    before, _, after = upstream.partition("*")
    pattern = re.compile(f"{re.escape(before)}(.*){re.escape(after)}")
    found = [one for known in list_known(vendor_name) if (one := pattern.fullmatch(known))]
    for one in found:
        model_id = name.replace("*", one[1])
        if model_id not in draft.models:
            is_newer = is_for_responses(vendor_name, [one[0]])
            table = choose_responses(draft, model_id, provider) if is_newer else provider
            place = draft.add_provider(vendor_name, table)
            draft.add_route(model_id, (place, one[0])).names.append(one[0])
    draft.note(
        f"model {name}",
        f"a `*` cannot be asked for here: {len(found)} models of {vendor_name} that are known stand in"
        " its place; delete those that nobody needs and add others",
    )


def _add_fallbacks(draft: Draft, settings: Mapping[str, Json]) -> None:
    for section in ("router_settings", "litellm_settings"):
        for model_id, others in _list_pairs(draft, settings[section].get("fallbacks")):
            for one in list(draft.models) if model_id == "*" else [model_id]:
                for other in others:
                    draft.add_fallback(one, other, "fallbacks")
        for other in map(read_text, _list(settings[section].get("default_fallbacks"))):
            for one in list(draft.models):
                draft.add_fallback(one, other, "default_fallbacks")


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else [value] if value else ()


def _list_pairs(draft: Draft, value: object) -> Iterator[tuple[str, list[str]]]:
    for one in _list(value):
        if not isinstance(one, dict):
            draft.note("fallbacks", "an entry is no table of a model and its fallbacks")
        for model_id, others in read_table(one).items():
            yield read_text(model_id), list(map(read_text, _list(others)))
