"""Fields and tools that change a provider's bill, and the checks whether a request may use them.

One table serves the upstreams of all dialects, as many providers accept other vendors' fields. Services have
rows of their own, for fields that multiply a service beyond what is counted. A model opens a field by a price
(a rule of `price_when`, `web_search`, `tool_prices`, a price of its media), or by its name in `allow`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.base.errors import BadRequest
from gateway.base.money import MEDIA, WEB_SEARCH, name_tool
from gateway.base.prices import NOTHING_SPECIAL, BillOptions, BillTerms, name_tier
from gateway.base.usage import MAX_PLAUSIBLE_CALLS
from gateway.dialects.wire.fields import unsupported
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.records import Json, Target


def asks(value: object) -> bool:
    return value not in (None, [], {}, "", False)


@dataclass(frozen=True, slots=True)
class Billed:
    """A field that changes the provider's bill."""

    asks: Callable[[object], bool] = asks
    """Returns whether a value requests something that costs."""
    is_priced: Callable[[object, Target], bool] = lambda _value, _target: False
    """Returns whether the model has a price for the value."""
    advice: str = "Leave it out"
    """Advice for callers: what to send instead."""


ANY_TOOL: Final = "tools"
"""The name in `allow` that opens tools of all kinds."""
MCP_SERVERS: Final = "mcp_servers"
INPUT_AUDIO: Final = "input_audio"


def _among(*free: object) -> Callable[[object], bool]:
    """Make a test whether a value is neither null nor one of the `free` values."""
    return lambda value: value not in (None, *free)


def _has_rule(
    condition: str, rename: Callable[[object], str] = str
) -> Callable[[object, Target], bool]:
    """Make a test whether a rule of the model's prices covers the value of a condition."""
    return lambda value, target: (
        isinstance(value, str) and target.prices.has_rule(condition, rename(value))
    )


def _are_modes_priced(value: object, target: Target) -> bool:
    """Return whether all requested media have a price."""
    modes = value if isinstance(value, list) else []
    prices = (
        getattr(target.prices.base, f"{mode}_output", None) for mode in modes if mode != "text"
    )
    return bool(modes) and None not in prices


def _names_a_cache(value: object) -> bool:
    """Return whether Gemini's options name a cache stored on the operator's account."""
    held = value if isinstance(value, dict) else {}
    both = (held, get_object(held, "google"))
    return any(asks(one.get(name)) for one in both for name in CACHES)


CACHES: Final = ("cached_content", "cachedContent")
BILLED: Final[Mapping[str, Billed]] = {
    # These set other prices for the same tokens.
    "service_tier": Billed(
        _among("auto", "default", "standard", "standard_only"), _has_rule("service_tier", name_tier)
    ),
    # A number is the speed of a voice, which costs nothing extra.
    "speed": Billed(
        lambda value: type(value) not in (float, int) and value not in (None, "standard"),
        _has_rule("speed"),
    ),
    "inference_geo": Billed(_among("global"), _has_rule("inference_geo")),
    # These add fees per search, or per source.
    "web_search_options": Billed(_among(), lambda _, target: is_open(WEB_SEARCH, target)),
    **dict.fromkeys(("search_parameters", "enable_search", "enable_code_interpreter"), Billed()),
    # These add tokens of other kinds, at other prices.
    "modalities": Billed(_among([], ["text"]), _are_modes_priced),
    "audio": Billed(is_priced=lambda _, target: target.prices.base.audio_output is not None),
    # These may choose other models at other prices, start any number of agents, or add to the request.
    **dict.fromkeys(
        (
            *("models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks"),
            *("safety_model", "route", "provider", "preset", "plugins", "transforms"),
            *("data_sources", "compound_custom", "providerOptions", "multi_agent"),
        ),
        Billed(),
    ),
    # These rent storage and machines by the hour, or call servers on the operator's account.
    **dict.fromkeys(CACHES, Billed()),
    "google": Billed(_names_a_cache),
    "extra_body": Billed(_names_a_cache),
    "container": Billed(),
    MCP_SERVERS: Billed(),
}
"""The fields that cost, by name. Values without effect are accepted everywhere."""
_LATER: Final = ("background", "deferred")
"""Fields that request a reply to be fetched later: the work would be done and nobody charged."""
_BACKGROUNDS: Final = ("auto", "opaque", "transparent")
"""Values that `background` has in a request for an image."""
NO_ROWS: Final[Mapping[str, Billed]] = {}

BILLED_TOOLS: Final = frozenset(
    {ANY_TOOL, WEB_SEARCH, "advisor", "code_execution", "file_search", "google_maps"}
    | {"google_search", "image_generation", "mcp", "web_fetch", "x_search"}
)
"""Tools that a model can allow, by name or all together."""
BILLED_NAMES: Final = BILLED_TOOLS.union(BILLED, {INPUT_AUDIO})
"""The names that `allow` can have for every model; kinds of models may add names."""
_FREE_TOOLS: Final = frozenset(
    # Tools that the caller runs itself.
    {"apply_patch", "bash", "computer", "computer_use", "custom", "function", "local_shell"}
    | {"memory", "namespace", "text_editor"}
    # These cost only the tokens in the usage.
    | {"tool_search", "tool_search_tool_bm25", "tool_search_tool_regex"}
)
FUNCTION: Final = frozenset({"function", "name"})
"""Members of a function that has no `type`. Gemini's tools have neither member: `{"google_search": {}}`."""
GEMINI_TOOLS: Final = frozenset(
    {"code_execution", "computer_use", "enterprise_web_search", "file_search", "google_maps"}
    | {"google_search", "google_search_retrieval", "retrieval", "url_context"}
    # Google's own spelling
    | {"codeExecution", "computerUse", "enterpriseWebSearch", "fileSearch", "googleMaps"}
    | {"googleSearch", "googleSearchRetrieval", "urlContext"}
)
_VERSION: Final = re.compile(r"(?:_preview)?(?:_\d{4}_\d\d_\d\d|_20\d{6})?$")
STORED: Final = ("container", "container_id", "connector_id")
"""Members of a tool that name something on the operator's account."""
MAY_COST: Final = frozenset({*BILLED, *_LATER, "tools"})
_ADDING: Final = frozenset(
    {*CACHES, "google", "extra_body", "container", MCP_SERVERS, "data_sources", "plugins"}
    | {"compound_custom", "providerOptions", "enable_search", "enable_code_interpreter"}
    | {"preset", "search_parameters"}
)
"""Fields that make a provider add input which is not in the request, as its tools do."""
_HOUR_MARK: Final = b'"ttl":"1h"'
_CACHE_MARK: Final = b'"cache_control":{'
"""Cache marks as the payload writes them. Inside a string the quotes would be escaped."""


def check_fields(body: Json, target: Target, rows: Mapping[str, Billed] = NO_ROWS) -> None:
    """Refuse fields that cost and have no price, including those in a service's `rows`.

    Raises BadRequest, naming the field.
    """
    # Most requests have none of the fields.
    if MAY_COST.isdisjoint(body) and rows.keys().isdisjoint(body):
        return
    for name in _LATER:
        if (value := body.get(name)) and value not in _BACKGROUNDS:
            raise unsupported(
                name,
                ". The reply would have to be fetched later, which this gateway does not offer. Leave it out.",
            )
    for name, row in {**BILLED, **rows}.items():
        value = body.get(name)
        if row.asks(value) and name not in target.allow and not row.is_priced(value, target):
            shown = value if name in BILLED else None  # values in `rows` may be content
            raise refuse(name, shown, "It changes what the provider charges", row.advice)


def check_tools(body: Json, target: Target, place: str = "tools[{}].type") -> None:
    """Refuse tools that the provider runs and that have no price. Raises BadRequest."""
    for index, tool in enumerate(get_list(body, "tools")):
        families, where = list_families(tool), place.format(index)
        for family in families:
            if not is_open(family, target):
                kind = get_text(tool, "type") if len(families) == 1 else ""
                why = "The provider would run this tool itself and charge for it"
                raise refuse(where, kind or family, why)
        if families:
            check_stored(tool, where)
            _count_uses(tool, where)


def is_open(family: str, target: Target) -> bool:
    """Return whether a model lets callers use a tool that the provider runs."""
    return (
        family in target.allow
        or (ANY_TOOL in target.allow and family != MCP_SERVERS)
        or target.prices.base.has_tool(family)
    )


def list_families(tool: object) -> list[str]:
    """Return the names of the provider-run tools in one declaration, without versions."""
    if not isinstance(tool, dict):
        return []
    kind, named = tool.get("type"), sorted(GEMINI_TOOLS & tool.keys())
    if kind is None:
        return named if FUNCTION.intersection(tool) else sorted(map(str, tool))
    vendor, _, name = str(kind).rpartition(":")
    family = name_tool(_VERSION.sub("", name))
    if family == "mcp_toolset":
        family = MCP_SERVERS
    is_local = get_object(tool, "environment").get("type") in (None, "local")
    is_free = family in _FREE_TOOLS or (family == "shell" and is_local)
    if not is_free:
        return [family, *named]
    return [str(kind), *named] if vendor else named


def check_stored(tool: Json, where: str) -> None:
    """Refuse a tool that names something stored on the operator's account. Raises BadRequest."""
    for held in (tool, get_object(tool, "container"), get_object(tool, "environment")):
        for name in STORED:
            if isinstance(held.get(name), str) or held.get("file_ids"):
                field = where.removesuffix("type") + name
                raise unsupported(field, " names something on the operator's account.")


def _count_uses(tool: Json, where: str) -> int:
    """Return the most calls that a tool's declaration allows; 1 if it sets no limit."""
    most = tool.get("max_uses")
    if most is None:
        return 1
    if type(most) is not int or not 0 <= most <= MAX_PLAUSIBLE_CALLS:
        name = where.removesuffix("type") + "max_uses"
        raise BadRequest(
            f"Invalid '{name}': expected an integer from 0 to {MAX_PLAUSIBLE_CALLS}.",
            param=name,
            code="invalid_value",
        )
    return most


def read_bill_options(body: Json, data: bytes, target: Target) -> BillOptions:  # noqa: ARG001 - see `Upstream`
    """Read the options that change the bill from a request as it is sent: the object and its bytes."""
    # A search in the bytes finds marks at any depth without a walk through the object.
    cache = "" if _CACHE_MARK not in data else "1h" if _HOUR_MARK in data else "5m"
    if MAY_COST.isdisjoint(body) and not cache:
        return NOTHING_SPECIAL
    calls: Counter[str] = Counter()
    for tool in get_list(body, "tools"):
        for family in list_families(tool):
            calls[family] += _count_uses(tool, "tools.type")
    if body.get("web_search_options") is not None:
        calls[WEB_SEARCH] += 1
    tier = body.get("service_tier")
    terms = BillTerms(name_tier(tier), get_text(body, "speed"), get_text(body, "inference_geo"))
    modes = [f"{mode}_output" for mode in get_list(body, "modalities")]
    media = tuple(name for name in modes if name in MEDIA)
    adds_input = any(BILLED[name].asks(body[name]) for name in _ADDING & body.keys())
    return BillOptions(terms, tier in (None, "auto"), calls, media, cache, adds_input)


def check_audio(where: str, target: Target) -> None:
    """Refuse a recording in the input, unless it has a price. Raises BadRequest."""
    if target.prices.base.audio_input is None and INPUT_AUDIO not in target.allow:
        raise refuse(where, INPUT_AUDIO, "The provider charges for recordings by other prices")


_WORD: Final = re.compile(r"[\w.-]{1,64}")
"""Values that an error may quote; other values may be content."""


def refuse(name: str, value: object, why: str, advice: str = "Leave it out") -> BadRequest:
    said = f" '{value}'" if isinstance(value, str) and _WORD.fullmatch(value) else ""
    return unsupported(
        name,
        f"{said}. {why}, and this model has no price for it here. {advice}, or ask"
        " whoever runs this gateway.",
    )


BAGS: Final = (
    *("extra_body", "google"),  # Google's own options, beside OpenAI's fields
    # Ollama; Hugging Face, DashScope and Vertex; Google; Bedrock, Titan; SGLang; and gateways that wrap them.
    *("options", "parameters", "config", "generation_config", "generationConfig"),
    *("inference_config", "inferenceConfig", "additional_model_request_fields"),
    *("additionalModelRequestFields", "text_generation_config", "textGenerationConfig"),
    *("image_generation_config", "imageGenerationConfig", "sampling_params", "sampling_parameters"),
    *("extra_params", "extra_parameters", "model_kwargs", "model_params", "params"),
)
"""Fields that hold other fields. A field that is counted or refused outside must not stand in them."""
