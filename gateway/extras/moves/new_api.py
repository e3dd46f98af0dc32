"""Exports of new-api (channels, and options with ratios) as a draft of gateway.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.base.money import MILLION
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extras.moves.draft import Draft, Unusable, round_price
from gateway.extras.moves.known import (
    AUDIO,
    COMPLETION,
    IMAGE,
    VENDORS,
    Vendor,
    find_kind,
    is_for_responses,
)
from gateway.extras.moves.litellm import choose_responses, find_address
from gateway.extras.moves.sources import (
    Json,
    parse_json,
    read_decimal,
    read_file,
    read_table,
    read_text,
)
from gateway.ledger.records import Refused

Ratios = Mapping[str, Decimal]


def _make(address: str, path: str = "/v1") -> Vendor:
    return Vendor(f"{address}{path}" if address else "", "KEY", path=path)


TYPES: Final[Mapping[int, Vendor]] = {
    1: replace(VENDORS["openai"], path="/v1"),
    3: VENDORS["azure"],
    4: VENDORS["ollama"],
    6: _make("https://api.openaimax.com"),
    7: _make("https://api.ohmygpt.com"),
    8: _make(""),  # a whole address
    10: _make("https://api.aiproxy.io"),
    12: _make("https://api.api2gpt.com"),
    13: _make("https://api.aigc2d.com"),
    14: VENDORS["anthropic"],
    17: _make("https://dashscope.aliyuncs.com", "/compatible-mode/v1"),
    19: _make("https://api.360.cn"),
    20: replace(VENDORS["openrouter"], path="/v1"),
    24: replace(VENDORS["gemini"], path="/v1beta/openai"),
    25: replace(VENDORS["moonshot"], base_url="https://api.moonshot.cn/v1"),
    26: _make("https://open.bigmodel.cn", "/api/paas/v4"),
    27: VENDORS["perplexity"],
    31: _make("https://api.lingyiwanwu.com"),
    34: _make("https://api.cohere.ai", "/compatibility/v1"),
    35: _make("https://api.minimax.chat"),
    38: _make("https://api.jina.ai"),
    40: _make("https://api.siliconflow.cn"),
    42: VENDORS["mistral"],
    43: VENDORS["deepseek"],
    45: replace(VENDORS["volcengine"], path="/api/v3"),
    46: _make("https://qianfan.baidubce.com", "/v2"),
    47: _make(""),  # Xinference
    48: VENDORS["xai"],
    53: _make("https://llm.submodel.ai"),
}
"""Vendors whose API is served here, by new-api's number."""
_CUSTOM: Final = 8
"""The number of channels whose address is complete; to other addresses the vendor's path is appended."""
_ENABLED: Final = 1
"""The status of a channel, or of a key, that is switched on."""
_TABLES: Final = (
    *("modelratio", "completionratio", "cacheratio", "createcacheratio", "modelprice"),
    "groupratio",
)
"""The options that are read, in lower case without underscores. Each has numbers by name."""
_UNIT: Final = "quotaperunit"
_SETTINGS: Final = {
    "status_code_mapping": "statuses of providers are told as they are",
    "param_override": "callers' fields are passed on; a model's `leave_out` leaves some out",
    "header_override": "write them as `headers` of the provider",
    "openai_organization": "write it as a header of the provider: headers = { OpenAI-Organization = … }",
    "other": "the address has what it needs here",
    "tag": "providers have names here, and no tags",
    "remark": "write it as a comment",
}
"""Settings of a channel that are not carried over, and why."""
_CARRIED: Final = frozenset(
    {"id", "type", "key", "status", "name", "base_url", "models", "group", "model_mapping"}
    | {"priority", "weight", "channel_info"}
)
_HAPPENED: Final = frozenset(
    {"created_time", "test_time", "response_time", "balance", "balance_updated_time"}
    | {"used_quota", "other_info", "test_model", "auto_ban"}
)
"""Fields that tell what happened to a channel, or how it is tested: of no use here."""
_ABSENT: Final[tuple[object, ...]] = (None, False, 0, "", "{}", "[]", {}, [])
_PER_TOKEN: Final = 500_000
"""Quota units of a dollar, unless an option says otherwise: so a ratio of 1 is 2 dollars per million."""
_COMPLETION: Final = tuple(
    (re.compile(pattern), Decimal(ratio) / divisor, is_fixed)
    for pattern, ratio, divisor, is_fixed in (
        (r".*(-all|-gizmo-\*)$", 2, 1, False),
        (r"gpt-4o-2024-05-13$|chatgpt-4o-latest$|gpt-4-turbo", 3, 1, True),
        (r"gpt-4o|gpt-4\.1|o4", 4, 1, False),
        (r"gpt-4-(1106|0125)", 3, 1, False),
        (r"gpt-4\.5-preview", 2, 1, True),
        (r"gpt-4", 2, 1, False),
        (r"gpt-5[^.]*$", 8, 1, True),
        (r"gpt-5\.4-nano", 25, 4, True),
        (r"gpt-5\.4", 6, 1, True),
        (r"gpt-5\.[1-3]", 8, 1, False),
        (r"gpt-5", 6, 1, False),
        (r"gpt-3\.5-turbo-1106", 2, 1, False),
        (r"gpt-3\.5-turbo(-0125)?$", 3, 1, False),
        (r"gpt-3\.5", 4, 3, False),
        (r"o[13]|gemini-(1\.5|2\.0)", 4, 1, True),
        (r".*claude-(3|(sonnet|opus|haiku)-[45]|fable-5)", 5, 1, True),
        (r"mistral-", 3, 1, True),
        (r"gemini-2\.5-pro", 8, 1, False),
        (r"gemini-2\.5-flash-lite", 4, 1, False),
        (r"gemini-2\.5-flash|gemini-robotics", 25, 3, False),
        (r"gemini-3-pro", 6, 1, False),
        (r"gemini-", 4, 1, False),
        (r"command-r-plus$", 5, 1, True),
        (r"command-r$", 3, 1, True),
        (r"command", 4, 1, False),
        (r"ERNIE-(Speed|Lite|Character|Functions)", 2, 1, True),
    )
)
"""The completion ratios that new-api has built in. A fixed one takes precedence over the option."""
_CREATE: Final = Decimal("1.25")
"""The ratio of writing to a cache that new-api has built in."""


def adopt(files: Sequence[Path]) -> Draft:
    """Make a draft of channels and options, in one file or in several. Raises NotFound, Refused."""
    draft = Draft(f"gateway adopt new-api {' '.join(one.name for one in files)}")
    channels: list[Json] = []
    options: dict[str, object] = {}
    total = 0
    for file in files:
        raw = parse_json(file, read_file(file))
        found = _find_channels(raw)
        channels += [one for one in found if one not in channels]
        total = max(total, _find_total(raw))
        options |= _find_options(raw)
    if not channels:
        raise Refused(
            "no file has channels: export them as JSON (GET /api/channel/), with the options"
            " (GET /api/option/) in the same file or in a second one"
        )
    if total > len(channels):
        why = f"there are {total}, of which the files have {len(channels)}: give all pages (&p=2 …)"
        draft.note("channels", why)
    prices = _Prices(draft, options)
    # Channels that new-api asks first come first.
    for one in sorted(
        channels, key=lambda one: (-_read_int(one.get("priority")), -_read_int(one.get("weight")))
    ):
        _add_channel(draft, one)
    for model_id, model in draft.models.items():
        prices.set_price(model_id)
        model.names = [model_id, *(route[1] for route in model.routes)]
    shared = [name for name, model in draft.models.items() if len(model.routes) > 1]
    for name in shared:
        draft.note(
            "weight, priority", "routes are tried in their order: the first while it works", name
        )
    return draft


def _find_channels(raw: object) -> list[Json]:
    """Return the channels of an export, however it is wrapped."""
    if isinstance(raw, list):
        return [one for one in raw if isinstance(one, dict) and "models" in one and "type" in one]
    if isinstance(raw, dict):
        return [
            one for key in ("channels", "data", "items") for one in _find_channels(raw.get(key))
        ]
    return []


def _find_total(raw: object) -> int:
    """Return the number of all channels that a page of them states; 0 for other exports."""
    if not isinstance(raw, dict):
        return 0
    told = _read_int(raw.get("total")) if _find_channels(raw.get("items")) else 0
    return max(told, _find_total(raw.get("data")))


def _find_options(raw: object) -> dict[str, object]:
    """Return the options of an export by their names."""
    if isinstance(raw, list):
        pairs = ((one.get("key"), one.get("value")) for one in raw if isinstance(one, dict))
        return {key: _parse(value) for key, value in pairs if isinstance(key, str)}
    found: dict[str, object] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if key in ("options", "data"):
            found |= _find_options(value)
        elif key not in _WRAPPING:
            found[key] = _parse(value)
    return found


_WRAPPING: Final = frozenset(
    {"success", "message", "code", "channels", "items", "total", "page", "page_size", "type_counts"}
)
"""Fields of replies that wrap channels and options, and are no options."""


def _parse(value: object) -> object:
    """Parse an option's text, which may be JSON."""
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return json.loads(value, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return value


def _read_int(value: object) -> int:
    text = read_text(value)
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else 0


def _add_channel(draft: Draft, one: Json) -> None:
    name = read_text(one.get("name")) or f"channel {read_text(one.get('id'))}"
    if _read_int(one.get("status", _ENABLED)) != _ENABLED:
        draft.note("channels that are switched off", "delete the `status` to carry them over", name)
        return
    for key, value in one.items():
        if key not in _CARRIED | _HAPPENED and value not in _ABSENT:
            draft.note(key, _SETTINGS.get(key, "there is nothing like it here"), name)
    groups = {part.strip() for part in read_text(one.get("group")).split(",")}
    if groups - {"", "default"}:
        draft.note("group", "who may use what is an account's here: `account edit --models`", name)
    mapping = read_table(_parse(one.get("model_mapping")))
    try:
        table = _make_provider(draft, name, one)
        provider = draft.add_provider(name, table)
    except Unusable as error:
        draft.note(f"channel {name}", str(error))
        return
    told = one["models"]
    models = map(read_text, told) if isinstance(told, list) else read_text(told).split(",")
    for model_id in dict.fromkeys(part for model in models if (part := model.strip())):
        try:
            upstream = read_text(mapping.get(model_id)) or model_id
            place, maker = provider, _MAKERS.get(_read_int(one.get("type")), "")
            if is_for_responses(maker, [upstream]):
                place = draft.add_provider(name, choose_responses(draft, model_id, table))
            draft.add_route(model_id, (place, upstream), find_kind(model_id))
        except Unusable as error:
            draft.note(f"model {model_id}", f"{name}: {error}")


_MAKERS: Final = {1: "openai", 3: "azure"}
"""The types of channels that serve OpenAI's models themselves."""


def _make_provider(draft: Draft, name: str, one: Json) -> dict[str, object]:
    """Make a provider's table. Raises Unusable."""
    number = _read_int(one.get("type"))
    vendor = TYPES.get(number)
    if vendor is None:
        raise Unusable(
            f"vendors of type {read_text(one.get('type'))} have no API that is served here"
        )
    address = find_address(vendor, read_text(one.get("base_url")), is_root=number != _CUSTOM)
    table: dict[str, object] = {"dialect": vendor.dialect, "base_url": address}
    keys = list(_list_keys(one.get("key")))
    states = read_table(read_table(_parse(one.get("channel_info"))).get("multi_key_status_list"))
    off = {_read_int(place) for place, state in states.items() if state != _ENABLED}
    if off:
        draft.note("keys that are switched off", "they are left out", name)
        keys = [key for place, key in enumerate(keys) if place not in off]
    if vendor.variable and (keys or vendor.base_url):
        stem = name if re.search("[A-Za-z0-9]", name) else f"channel {read_text(one.get('id'))}"
        told = [draft.name_secret(key, f"{stem}_KEY", name) for key in dict.fromkeys(keys or [""])]
        places = [f"env:{variable}" for variable in told]
        table["api_key"] = places[0] if len(places) == 1 else places
    return {**table, **vendor.settings}


def _list_keys(value: object) -> Iterator[str]:
    text = read_text(value).strip()
    lines = _parse(text) if text.startswith("[") else text.split("\n")
    for line in lines if isinstance(lines, list) else [text]:
        if isinstance(line, str) and line.strip():
            yield line.strip()


class _Prices:
    """Prices from ratios: input costs twice the ratio in dollars per million, output that times another."""

    def __init__(self, draft: Draft, options: Json) -> None:
        self._draft = draft
        self._told: dict[str, Ratios] = dict.fromkeys(_TABLES, MappingProxyType({}))
        unit: Decimal | None = None
        for name, value in options.items():
            folded = name.replace("_", "").lower()
            if folded in _TABLES:
                self._told[folded] = self._read(name, value)
            elif folded == _UNIT:
                if not (unit := read_decimal(value, MILLION**2)):
                    draft.note(name, f"is no number above 0: prices are as if it were {_PER_TOKEN}")
            elif value not in _ABSENT:
                what, why = _FURTHER if re.search("ratio|price|billing", folded) else _OTHERS
                draft.note(what, why, name)
        self._times = Decimal(MILLION) / (unit or _PER_TOKEN)
        groups = self._told["groupratio"]
        if groups.get("default") == 0:
            # A group's ratio of 0 must not make models free.
            why = (
                "that of `default` is 0, and prices are written as if it were 1: see who should pay"
            )
            draft.note("GroupRatio", why)
        elif any(ratio != 1 for ratio in groups.values()):
            why = "prices are the same for all here; those of `default` are written"
            draft.note("GroupRatio", why)
        self._times_group = groups.get("default") or Decimal(1)

    def _read(self, option: str, value: object) -> Ratios:
        found = {}
        if value not in _ABSENT and not isinstance(value, dict):
            self._draft.note(option, "is no table of numbers")
        for name, one in read_table(value).items():
            ratio = read_decimal(one)
            if ratio is None:
                self._draft.note(option, "is no number, or one below 0", str(name))
            else:
                found[str(name)] = ratio
        return MappingProxyType(found)

    def set_price(self, model_id: str) -> None:
        model, fixed = self._draft.models[model_id], self._find("modelprice", model_id)
        if fixed is not None:
            amount = round_price(fixed * self._times_group)
            if model.kind == IMAGE:
                model.price = {"image": amount}
            elif model.kind == AUDIO:
                self._draft.note("ModelPrice", "speech is priced by the character here", model_id)
            else:
                model.price = {"request": amount}
            return
        ratio = self._find("modelratio", model_id)
        if ratio is None:
            return
        told = {"input": ratio, "output": ratio * self._find_completion(model_id)}
        if "claude" in model_id:
            told["cache_write"] = ratio * _CREATE
        for ours, option in (("cached_input", "cacheratio"), ("cache_write", "createcacheratio")):
            cached = self._find(option, model_id)
            if cached is not None:
                told[ours] = ratio * cached
        if model.kind == AUDIO:
            told.pop("output")
            if "whisper" in model_id or "transcribe" in model_id:
                why = "a ratio of transcripts is a guess: the vendor's price of a minute stands here, if it is known"
                self._draft.note("ModelRatio", why, model_id)
                return
        times = self._times * self._times_group
        model.price = {name: round_price(amount * times) for name, amount in told.items()}

    def _find(self, option: str, model_id: str) -> Decimal | None:
        """Find a model's number in an option. A name that ends in `*` matches all names that begin so."""
        told = self._told[option]
        if model_id in told:
            return told[model_id]
        begins = (name for name in told if name.endswith("*") and model_id.startswith(name[:-1]))
        return told[best] if (best := max(begins, key=len, default="")) else None

    def _find_completion(self, model_id: str) -> Decimal:
        """Find the ratio of output to input. A fixed ratio takes precedence over the option."""
        told = self._find("completionratio", model_id)
        found = (row[1:] for row in _COMPLETION if row[0].match(model_id))
        ratio, is_fixed = next(found, (Decimal(1), False))
        if told is not None and not (is_fixed and "/" not in model_id):
            return told
        if told != ratio and self._draft.models[model_id].kind in (DEFAULT_KIND, COMPLETION):
            why = f"it is built in there ({ratio:.4g} times the input): compare the price of output"
            self._draft.note("CompletionRatio", why, model_id)
        return ratio


_FURTHER: Final = (
    "options about prices",
    "what they charge there is not carried over: see `price_when`, `audio_input` … in charges.md",
)
_OTHERS: Final = ("options", "they are about new-api itself")
