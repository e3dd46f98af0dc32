"""Facts that other gateways have built in: vendors' addresses and variables, models' prices and limits.

Prices are vendors' list prices in USD, for models that such files often name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Final

from gateway.dialects.wire.records import DEFAULT_KIND


@dataclass(frozen=True, slots=True)
class Vendor:
    base_url: str
    """The address up to and including /v1; "" if each customer has a different one."""
    variable: str
    """The variable of its key; "" if it needs none."""
    dialect: str = "chat"
    path: str = "/v1"
    """The path that is appended to an address without one; "" if addresses are complete."""
    settings: Mapping[str, object] = field(default_factory=dict)
    is_root: bool = False
    """The vendor's clients append `path` to every address."""


_MARKS: Final = {"takes": ["cache_control", "top_k"], "pass_headers": ["http-referer", "x-title"]}
AZURE_PATH: Final = "/openai/v1"
_AZURE: Final = {"max_tokens_field": "max_completion_tokens", "history": "openai"}
VENDORS: Final[Mapping[str, Vendor]] = {
    "anthropic": Vendor(
        "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "messages", is_root=True
    ),
    "azure": Vendor("", "AZURE_API_KEY", path=AZURE_PATH, settings=_AZURE),
    "azure_ai": Vendor("", "AZURE_AI_API_KEY", path=AZURE_PATH, settings=_AZURE),
    "azure_ai/claude": Vendor("", "AZURE_AI_API_KEY", "messages", "/anthropic/v1", is_root=True),
    "cerebras": Vendor("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "cohere": Vendor("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "dashscope": Vendor(
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"
    ),
    "deepinfra": Vendor("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": Vendor(
        *("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        settings={"takes": ["reasoning_content"]},
    ),
    "fireworks_ai": Vendor("https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"),
    "gemini": Vendor(
        *("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
        settings={"takes": ["thought_signature"]},
    ),
    "groq": Vendor("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "hosted_vllm": Vendor("", "", path="", settings={"takes": ["top_k"]}),
    "mistral": Vendor(
        *("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
        settings={"stream_usage": False, "history": "mistral"},
    ),
    "moonshot": Vendor(
        *("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
        settings={"takes": ["reasoning_content"]},
    ),
    "nvidia_nim": Vendor("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "ollama": Vendor("http://localhost:11434/v1", ""),
    "openai": Vendor("https://api.openai.com/v1", "OPENAI_API_KEY", path=""),
    "openrouter": Vendor(
        "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", path="", settings=_MARKS
    ),
    "perplexity": Vendor("https://api.perplexity.ai", "PERPLEXITYAI_API_KEY", path=""),
    "together_ai": Vendor("https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    "volcengine": Vendor("https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY", path=""),
    "xai": Vendor(
        "https://api.x.ai/v1", "XAI_API_KEY", settings={"pass_headers": ["x-grok-conv-id"]}
    ),
    "zai": Vendor("https://api.z.ai/api/paas/v4", "ZAI_API_KEY", path=""),
}
"""Vendors by LiteLLM's names."""


@dataclass(frozen=True, slots=True)
class Known:
    vendor: str
    prices: Mapping[str, Decimal]
    max_output: int | None
    rules: Mapping[int, Mapping[str, Decimal]]
    """Prices for longer inputs, by the tokens of input above which they apply."""


_LISTED: Final = """
openai     gpt-3.5-turbo           input 0.5 output 1.5 limit 4096
openai     gpt-3.5-turbo-16k       input 3 output 4 limit 4096
openai     gpt-3.5-turbo-1106      input 1 output 2 limit 4096
openai     gpt-3.5-turbo-instruct  input 1.5 output 2 limit 4096
openai     gpt-4                   input 30 output 60 limit 8192
openai     gpt-4-32k               input 60 output 120 limit 8192
openai     gpt-4-turbo             input 10 output 30 limit 4096
openai     gpt-4-turbo-preview     input 10 output 30 limit 4096
openai     gpt-4-vision-preview    input 10 output 30 limit 4096
openai     gpt-4-1106-preview      input 10 output 30 limit 4096
openai     gpt-4-0125-preview      input 10 output 30 limit 4096
openai     gpt-4o                  input 2.5 cached_input 1.25 output 10 limit 16384
openai     gpt-4o-2024-05-13       input 5 output 15 limit 4096
openai     gpt-4o-mini             input 0.15 cached_input 0.075 output 0.6 limit 16384
openai     chatgpt-4o-latest       input 5 output 15 limit 16384
openai     gpt-4.1                 input 2 cached_input 0.5 output 8 limit 32768
openai     gpt-4.1-mini            input 0.4 cached_input 0.1 output 1.6 limit 32768
openai     gpt-4.1-nano            input 0.1 cached_input 0.025 output 0.4 limit 32768
openai     gpt-5                   input 1.25 cached_input 0.125 output 10 limit 128000
openai     gpt-5-chat              input 1.25 cached_input 0.125 output 10 limit 16384
openai     gpt-5-codex             input 1.25 cached_input 0.125 output 10 limit 128000
openai     gpt-5-mini              input 0.25 cached_input 0.025 output 2 limit 128000
openai     gpt-5-nano              input 0.05 cached_input 0.005 output 0.4 limit 128000
openai     gpt-5.1                 input 1.25 cached_input 0.125 output 10 limit 128000
openai     gpt-5.2                 input 1.75 cached_input 0.175 output 14 limit 128000
openai     gpt-5.3-codex           input 1.75 cached_input 0.175 output 14 limit 128000
openai     gpt-5.4                 input 2.5 cached_input 0.25 output 15 limit 128000 above 272000 input 5 cached_input 0.5 output 22.5
openai     gpt-5.4-mini            input 0.75 cached_input 0.075 output 4.5 limit 128000
openai     gpt-5.4-nano            input 0.2 cached_input 0.02 output 1.25 limit 128000
openai     gpt-5.5                 input 5 cached_input 0.5 output 30 limit 128000 above 272000 input 10 cached_input 1 output 45
openai     o1                      input 15 cached_input 7.5 output 60 limit 100000
openai     o3                      input 2 cached_input 0.5 output 8 limit 100000
openai     o3-mini                 input 1.1 cached_input 0.55 output 4.4 limit 100000
openai     o4-mini                 input 1.1 cached_input 0.275 output 4.4 limit 100000
openai     text-embedding-ada-002  input 0.1
openai     text-embedding-3-small  input 0.02
openai     text-embedding-3-large  input 0.13
openai     whisper-1               minute 0.006
openai     tts-1                   input 15
openai     tts-1-hd                input 30
openai     dall-e-2                image 0.02
openai     dall-e-3                image 0.04
anthropic  claude-3-haiku          input 0.25 output 1.25 limit 4096
anthropic  claude-3-opus           input 15 output 75 limit 4096
anthropic  claude-3-sonnet         input 3 output 15 limit 4096
anthropic  claude-3-5-haiku        input 0.8 output 4 limit 8192
anthropic  claude-3-5-sonnet       input 3 output 15 limit 8192
anthropic  claude-3-7-sonnet       input 3 output 15 limit 64000
anthropic  claude-opus-4           input 15 output 75 limit 32000
anthropic  claude-opus-4-1         input 15 output 75 limit 32000
anthropic  claude-opus-4-5         input 5 output 25 limit 64000
anthropic  claude-opus-4-6         input 5 output 25 limit 128000
anthropic  claude-opus-4-7         input 5 output 25 limit 128000
anthropic  claude-opus-4-8         input 5 output 25 limit 128000
anthropic  claude-sonnet-4         input 3 output 15 limit 64000
anthropic  claude-sonnet-4-5       input 3 output 15 limit 64000
anthropic  claude-sonnet-4-6       input 3 output 15 limit 64000
anthropic  claude-sonnet-5         input 2 output 10 limit 128000
anthropic  claude-opus-5           input 5 output 25 limit 128000
anthropic  claude-fable-5          input 10 output 50 limit 128000
anthropic  claude-haiku-4-5        input 1 output 5 limit 64000
gemini     gemini-2.0-flash        input 0.1 cached_input 0.025 output 0.4 limit 8192
gemini     gemini-2.5-flash        input 0.3 cached_input 0.03 output 2.5 limit 65536
gemini     gemini-2.5-flash-lite   input 0.1 cached_input 0.01 output 0.4 limit 65536
gemini     gemini-2.5-pro          input 1.25 cached_input 0.125 output 10 limit 65536 above 200000 input 2.5 cached_input 0.25 output 15
gemini     gemini-3-flash-preview  input 0.5 cached_input 0.05 output 3 limit 65536
gemini     gemini-3.1-flash-lite   input 0.25 cached_input 0.025 output 1.5 limit 65536
gemini     gemini-3.1-pro-preview  input 2 cached_input 0.2 output 12 limit 65536 above 200000 input 4 cached_input 0.4 output 18
gemini     gemini-3.5-flash        input 1.5 cached_input 0.15 output 9 limit 65536
deepseek   deepseek-chat           input 0.28 cached_input 0.028 output 0.42 limit 8192
deepseek   deepseek-reasoner       input 0.28 cached_input 0.028 output 0.42 limit 65536
groq       llama-3.1-8b-instant    input 0.05 output 0.08 limit 131072
groq       llama-3.3-70b-versatile input 0.59 output 0.79 limit 32768
mistral    codestral-latest        input 0.3 cached_input 0.03 output 0.9
mistral    mistral-large-latest    input 0.5 cached_input 0.05 output 1.5
mistral    mistral-medium-latest   input 1.5 cached_input 0.15 output 7.5
mistral    mistral-small-latest    input 0.15 cached_input 0.015 output 0.6
mistral    mistral-embed           input 0.1
xai        grok-3                  input 3 output 15
xai        grok-3-mini             input 0.3 output 0.5
"""
_CACHE_READ: Final = Decimal("0.1")
_CACHE_WRITE: Final = Decimal("1.25")
"""Anthropic's prices for tokens of a cache, as multiples of the price of input."""
_ENDS: Final = re.compile(
    r"([-@](20\d\d-\d\d-\d\d|20\d{6}|0[0-9]{3}|1[0-2]\d\d|latest)|-v\d+:\d+)+$"
)
"""Endings of a model's name beside its version: dates, such as `-2024-08-06` and `-0613`, and `-latest`."""


@cache
def _read_listed() -> Mapping[str, tuple[str, Known]]:
    """Return each model's name and prices, by its name as `_fold` writes it."""
    found = {}
    for line in filter(None, _LISTED.split("\n")):
        told, *further = line.split(" above ")
        vendor, name, *words = told.split()
        prices = _read_prices(words)
        limit = prices.pop("limit", None)
        if vendor == "anthropic":
            prices["cached_input"] = prices["input"] * _CACHE_READ
            prices["cache_write"] = (prices["input"] * _CACHE_WRITE).normalize()
        rules = {int(above): _read_prices(rest) for above, *rest in map(str.split, further)}
        known = Known(vendor, prices, None if limit is None else int(limit), rules)
        found[_fold(name)] = name, known
    return found


def _read_prices(words: list[str]) -> dict[str, Decimal]:
    return dict(zip(words[::2], map(Decimal, words[1::2]), strict=True))


def _fold(name: str) -> str:
    return name.lower().rpartition("/")[2].replace(".", "-").replace("gpt-35-", "gpt-3-5-")


def find_known(name: str) -> Known | None:
    """Return the known facts of a model. A date at the end of its name is ignored if necessary."""
    folded, listed = _fold(name), _read_listed()
    found = listed.get(folded) or listed.get(_ENDS.sub("", folded))
    return found and found[1]


def list_known(vendor: str) -> list[str]:
    """Return the names of a vendor's models that are known here."""
    return [name for name, known in _read_listed().values() if known.vendor == vendor]


AUDIO: Final = "audio"
COMPLETION: Final = "completion"
EMBEDDING: Final = "embedding"
IMAGE: Final = "image"
RERANK: Final = "rerank"
MODES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("chat", "responses"), DEFAULT_KIND),
    "completion": COMPLETION,
    "embedding": EMBEDDING,
    "image_generation": IMAGE,
    "rerank": RERANK,
    **dict.fromkeys(("audio_transcription", "audio_speech"), AUDIO),
}
"""The kinds of models, by LiteLLM's names."""
_KINDS: Final = (
    (re.compile(r"embed|(^|/)bge-(?!rerank)|(^|/)(e5|gte)-"), EMBEDDING),
    (re.compile(r"rerank"), RERANK),
    (re.compile(r"dall-e|gpt-image|imagen|flux|stable-diffusion|sdxl"), IMAGE),
    (re.compile(r"whisper|tts-|-tts|transcribe"), AUDIO),
    (re.compile(r"turbo-instruct|davinci-00|babbage-00"), COMPLETION),
)


def find_kind(name: str) -> str:
    """Return the kind that a model has by its name."""
    found = (kind for pattern, kind in _KINDS if pattern.search(name.lower()))
    return next(found, DEFAULT_KIND)


RESPONSES: Final = "responses"
"""The dialect of OpenAI's newer API, and LiteLLM's word for it."""
_RESPONSES: Final = re.compile(
    r"gpt-5(-\d)?(-codex|-pro)|o[13]-pro|codex-|o[34](-mini)?-deep-research"
)
_MAKERS: Final = ("openai", "azure")


def is_for_responses(vendor: str, names: Iterable[str]) -> bool:
    """Return whether one of these names is a model of OpenAI's that only the Responses API serves."""
    return vendor in _MAKERS and any(_RESPONSES.match(_fold(one)) for one in names)


@dataclass(frozen=True, slots=True)
class _Quirks:
    leave_out: tuple[str, ...] = ()
    reasoning: str = ""
    """The setting `reasoning` of a model of Anthropic; "" for other models."""


_SAMPLING: Final = ("temperature", "top_p")
_EFFORT: Final = "effort"
"""The default `reasoning` of a model of Anthropic, which is not written."""
_QUIRKS: Final = (
    (re.compile(r"gpt-[5-9](?!.*chat)|o[134](-|$)"), _Quirks(_SAMPLING)),
    (
        re.compile(r"claude-[a-z]+-(4-[78]|[5-9])"),
        _Quirks((*_SAMPLING, "top_k"), reasoning=_EFFORT),
    ),
    (
        re.compile(r"claude-(3-7|(opus|sonnet|haiku)-4(-[0-5])?(-20|-latest|@|$))"),
        _Quirks(reasoning="budget"),
    ),
    (re.compile(r"gemini"), _Quirks(("store",))),
)


def find_quirks(names: Iterable[str]) -> dict[str, object]:
    """Return the settings that a model needs, from the names of its routes. Earlier names take precedence."""
    folded = [_fold(one) for one in names]
    quirks = [told for one in folded for pattern, told in _QUIRKS if pattern.match(one)]
    left_out = dict.fromkeys(field for told in quirks for field in told.leave_out)
    reasoning = next((told.reasoning for told in quirks if told.reasoning), _EFFORT)
    return {
        "leave_out": list(left_out) or None,
        "reasoning": None if reasoning == _EFFORT else reasoning,
    }
