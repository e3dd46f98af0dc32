"""Exports of new-api (channels, and options with ratios) as a draft of gateway.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.base.money import MILLION
from gateway.extras.moves.draft import Draft, Prices, Unusable, read_decimal, round_price
from gateway.extras.moves.known import AUDIO, IMAGE, VENDORS, Vendor, find_kind
from gateway.extras.moves.litellm import find_address, parse_json, read_text
from gateway.ledger.records import Refused

Json = Mapping[str, Any]
Ratios = Mapping[str, Decimal]


def _make(address: str, path: str = "/v1") -> Vendor:
    return Vendor(f"{address}{path}" if address else "", "KEY", path=path)


TYPES: Final[Mapping[int, tuple[str, Vendor]]] = {
    1: ("openai", replace(VENDORS["openai"], path="/v1")),
    3: ("azure", VENDORS["azure"]),
    4: ("ollama", VENDORS["ollama"]),
    6: ("openaimax", _make("https://api.openaimax.com")),
    7: ("ohmygpt", _make("https://api.ohmygpt.com")),
    8: ("custom", _make("")),
    10: ("aiproxy", _make("https://api.aiproxy.io")),
    12: ("api2gpt", _make("https://api.api2gpt.com")),
    13: ("aigc2d", _make("https://api.aigc2d.com")),
    14: ("anthropic", VENDORS["anthropic"]),
    17: ("ali", _make("https://dashscope.aliyuncs.com", "/compatible-mode/v1")),
    19: ("360", _make("https://api.360.cn")),
    20: ("openrouter", replace(VENDORS["openrouter"], path="/v1")),
    24: ("gemini", replace(VENDORS["gemini"], path="/v1beta/openai")),
    25: ("moonshot", replace(VENDORS["moonshot"], base_url="https://api.moonshot.cn/v1")),
    26: ("zhipu", _make("https://open.bigmodel.cn", "/api/paas/v4")),
    27: ("perplexity", VENDORS["perplexity"]),
    31: ("lingyiwanwu", _make("https://api.lingyiwanwu.com")),
    34: ("cohere", _make("https://api.cohere.ai", "/compatibility/v1")),
    35: ("minimax", _make("https://api.minimax.chat")),
    38: ("jina", _make("https://api.jina.ai")),
    40: ("siliconflow", _make("https://api.siliconflow.cn")),
    42: ("mistral", VENDORS["mistral"]),
    43: ("deepseek", VENDORS["deepseek"]),
    45: ("volcengine", replace(VENDORS["volcengine"], path="/api/v3")),
    46: ("baidu", _make("https://qianfan.baidubce.com", "/v2")),
    47: ("xinference", _make("")),
    48: ("xai", VENDORS["xai"]),
    53: ("submodel", _make("https://llm.submodel.ai")),
}
"""new-api's numbers of vendors that have an API which is served here."""
_ENABLED: Final = 1
"""The status of a channel that is switched on."""
_OPTIONS: Final = (
    *("modelratio", "completionratio", "cacheratio", "createcacheratio", "modelprice"),
    *("groupratio", "quotaperunit"),
)
"""The options that are read, without capitals and underscores."""
_PRICED: Final = ("audioratio", "audiocompletionratio", "imageratio")
_SETTINGS: Final = {
    "status_code_mapping": "statuses of providers are told as they are",
    "param_override": "callers' fields are passed on; a model's `leave_out` leaves some out",
    "header_override": "write them as `headers` of the provider",
    "openai_organization": "write it as a header of the provider: headers = { OpenAI-Organization = … }",
    "other": "the address has what it needs here",
    "setting": "there is nothing like it here",
    "settings": "there is nothing like it here",
    "tag": "providers have names here, and no tags",
    "remark": "write it as a comment",
}
"""Settings of a channel that are not carried over, and why. The rest is what happened to it."""
_PER_TOKEN: Final = 500_000
"""Quota units of a dollar, unless an option says otherwise: so a ratio of 1 is 2 dollars per million."""
_COMPLETION: Final = (
    *(("gpt-4o-2024-05-13", 3), ("chatgpt-4o", 3), ("gpt-4o", 4), ("gpt-4.1", 4), ("gpt-4.5", 2)),
    *(("gpt-4-turbo", 3), ("gpt-4-1106", 3), ("gpt-4-0125", 3), ("gpt-4", 2), ("gpt-5", 8)),
    *(("o1", 4), ("o3", 4), ("o4", 4), ("gpt-3.5-turbo-1106", 2), ("gpt-3.5-turbo", 3)),
    *(("claude-", 5), ("mistral-", 3), ("gemini-2.5-pro", 8), ("gemini-", 4)),
)
"""The completion ratios that new-api has built in, by how a model's name begins."""


def adopt(files: Sequence[Path]) -> Draft:
    """Make a draft of channels and options, in one file or in several. Raises NotFound, Refused."""
    draft = Draft(f"gateway adopt new-api {' '.join(one.name for one in files)}", False)
    channels: list[Json] = []
    options: dict[str, Any] = {}
    for file in files:
        raw = parse_json(file, read_text(file))
        channels += _find_channels(raw)
        options |= _find_options(raw)
    if not channels:
        raise Refused(
            "no file has channels: export them as JSON (GET /api/channel/), with the options"
            " (GET /api/option/) in the same file or in a second one"
        )
    prices = _Prices(draft, options)
    # What is asked first there stands first here.
    for one in sorted(
        channels, key=lambda one: (-_int(one.get("priority")), -_int(one.get("weight")))
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


def _find_options(raw: object) -> dict[str, Any]:
    """Return the options of an export by their names, without capitals and underscores."""
    if isinstance(raw, list):
        pairs = ((one.get("key"), one.get("value")) for one in raw if isinstance(one, dict))
        return {_fold(key): _parse(value) for key, value in pairs if isinstance(key, str)}
    found: dict[str, Any] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if key in ("options", "data"):
            found |= _find_options(value)
        elif key != "channels":
            found[_fold(key)] = _parse(value)
    return found


def _fold(name: str) -> str:
    return name.replace("_", "").lower()


def _parse(value: object) -> object:
    """Parse an option's text, which may be JSON."""
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return json.loads(value, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        return value


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _add_channel(draft: Draft, one: Json) -> None:
    name = str(one.get("name") or f"channel {one.get('id')}")
    if _int(one.get("status", _ENABLED)) != _ENABLED:
        draft.note("channels that are switched off", "delete the `status` to carry them over", name)
        return
    for key, why in _SETTINGS.items():
        if one.get(key) not in (None, "", "{}", {}):
            draft.note(key, why, name)
    groups = [
        part for part in str(one.get("group") or "").split(",") if part not in ("", "default")
    ]
    if groups:
        draft.note("group", "who may use what is an account's here: `account edit --models`", name)
    mapping = _parse(one.get("model_mapping"))
    mapping = mapping if isinstance(mapping, dict) else {}
    try:
        provider = _add_provider(draft, name, one)
    except Unusable as error:
        draft.note(f"channel {name}", str(error))
        return
    models = one["models"] if isinstance(one["models"], list) else str(one["models"]).split(",")
    for model_id in dict.fromkeys(part for model in models if (part := str(model).strip())):
        try:
            upstream = str(mapping.get(model_id) or model_id)
            draft.add_route(model_id, (provider, upstream), find_kind(model_id))
        except Unusable as error:
            draft.note(f"model {model_id}", f"{name}: {error}")


def _add_provider(draft: Draft, name: str, one: Json) -> str:
    found = TYPES.get(_int(one.get("type")))
    if found is None:
        raise Unusable(f"vendors of type {one.get('type')} have no API that is served here")
    _, vendor = found
    table: dict[str, object] = {
        "dialect": vendor.dialect,
        "base_url": find_address(vendor, str(one.get("base_url") or "")),
    }
    keys = list(_list_keys(one.get("key")))
    if vendor.variable and (keys or vendor.base_url):
        stem = name if re.search("[A-Za-z0-9]", name) else f"channel {one.get('id')}"
        told = [draft.name_secret(key, f"{stem}_KEY", name) for key in dict.fromkeys(keys or [""])]
        places = [f"env:{variable}" for variable in told]
        table["api_key"] = places[0] if len(places) == 1 else places
    return draft.add_provider(name, {**table, **vendor.settings})


def _list_keys(value: object) -> Iterator[str]:
    text = str(value or "").strip()
    lines = _parse(text) if text.startswith("[") else text.split("\n")
    for line in lines if isinstance(lines, list) else [text]:
        if isinstance(line, str) and line.strip():
            yield line.strip()


class _Prices:
    """Prices by ratios: dollars per million are the ratio times two, of output times another one."""

    def __init__(self, draft: Draft, options: Json) -> None:
        self._draft = draft
        self._told = {name: self._read(name, options.get(name)) for name in _OPTIONS[:-1]}
        unit = read_decimal(options.get("quotaperunit")) or Decimal(_PER_TOKEN)
        self._times = Decimal(MILLION) / unit
        groups = self._told["groupratio"]
        if any(ratio != 1 for ratio in groups.values()):
            draft.note(
                "GroupRatio", "prices are the same for all here; those of `default` are written"
            )
        self._times_group = groups.get("default", Decimal(1)) or Decimal(1)
        for name, value in options.items():
            if name in _PRICED and value:
                draft.note(name, "audio and images have prices of their own here: `audio_input` …")

    def _read(self, option: str, value: object) -> Ratios:
        found = {}
        for name, one in value.items() if isinstance(value, dict) else ():
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
                model.image = amount or None
            elif model.kind == AUDIO:
                self._draft.note("ModelPrice", "speech is priced by the character here", model_id)
            else:
                model.price = {"request": amount}
            return
        ratio = self._find("modelratio", model_id)
        if ratio is None:
            return
        completion = self._find("completionratio", model_id)
        if completion is None:
            completion = Decimal(_find_completion(model_id))
        told: Prices = {"input": ratio, "output": ratio * completion}
        for ours, option in (("cached_input", "cacheratio"), ("cache_write", "createcacheratio")):
            cached = self._find(option, model_id)
            if cached is not None:
                told[ours] = ratio * cached
        if model.kind == AUDIO:
            told.pop("output")
            if "whisper" in model_id or "transcribe" in model_id:
                why = "a ratio of transcripts is a guess there: the vendor's price of a minute stands here"
                self._draft.note("ModelRatio", why, model_id)
                return
        times = self._times * self._times_group
        model.price = {name: round_price(amount * times) for name, amount in told.items()}

    def _find(self, option: str, model_id: str) -> Decimal | None:
        """Find a model's number; a name that ends in `*` stands for all that begin so."""
        told = self._told[option]
        if model_id in told:
            return told[model_id]
        begins = (name for name in told if name.endswith("*") and model_id.startswith(name[:-1]))
        return told[best] if (best := max(begins, key=len, default="")) else None


def _find_completion(model_id: str) -> int:
    return next((ratio for begin, ratio in _COMPLETION if model_id.startswith(begin)), 1)
