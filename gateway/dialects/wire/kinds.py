"""Kinds of failure: how providers tell each one, and OpenAI's and Anthropic's words for a request that is too long.

Clients act on signals: they shorten a conversation that is too long, wait for an overloaded provider, and
give up if a filter refused. Callers of OpenAI's dialects get a kind's code and, for a request that is too
long, the words of `tell_as_openai`. Messages callers get Anthropic's type and the words of `tell_too_long`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

TOO_LONG: Final = "context_length_exceeded"
FILTERED: Final = "content_filter"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure: its names here, and how to recognise it in providers' errors of any status."""

    code: str
    """Its code in OpenAI's dialects."""
    status: int
    """The status that an error of this kind should have."""
    names: frozenset[str]
    """The providers' codes, types and statuses, in lower case and without separators."""
    words: re.Pattern[str]
    """Matches the providers' messages, for errors in which no name tells the kind."""
    kept: frozenset[str]
    """OpenAI's other codes for this kind. They are passed on unchanged."""


def _kind(
    code: str, status: int = 400, *, names: str = "", words: str = "(?!)", kept: str = ""
) -> Kind:
    codes = (code, *names.split(), *kept.split())
    pattern = re.compile(words, re.IGNORECASE | re.DOTALL)
    return Kind(code, status, frozenset(map(squeeze, codes)), pattern, frozenset(kept.split()))


def squeeze(name: str) -> str:
    """Return a name in lower case and without separators."""
    return re.sub(r"[\W_]", "", name).lower()


# Sources: the vendors' references of errors, the servers' own code (vLLM, SGLang, llama.cpp, Ollama, TGI),
# and the list of pi (earendil-works/pi, packages/ai/src/utils/overflow.ts), which has each vendor's text.
KINDS: Final = (
    # OpenAI (guide "Error codes"), Anthropic, Moonshot, Zhipu, DashScope; the texts are Anthropic's, with a
    # 400, and DeepSeek's.
    _kind(
        "insufficient_quota",
        402,
        names="billing_error exceeded_current_quota_error insufficient_balance 1113 Arrearage"
        " credit_balance_exhausted billing_hard_limit_reached usage_limit_exceeded"
        " organization_spend_limit_exceeded project_spend_limit_exceeded"
        " organization_usage_limit_exceeded budget_exceeded insufficient_user_quota",  # LiteLLM, new-api
        words=r"credit balance is too low|specified API usage limits"  # Anthropic
        r"|insufficient (?:account )?(?:balance|credits)|balance is insufficient"  # DeepSeek, SiliconFlow
        r"|used all available credits|spending limit|^budget has been exceeded"  # xAI, Fireworks, LiteLLM
        r"|requires more credits|overdue balance|is limited to .{0,40}/ ?month",  # OpenRouter, Volcengine, Cohere
    ),
    # OpenAI; Gemini, xAI, and Anthropic and Groq of a whole account, with a 400; MiniMax within a 200
    _kind(
        "invalid_api_key",
        401,
        names="API_KEY_INVALID organization_restricted",
        # Only at the beginning: further on, the words may be the caller's, quoted by the provider.
        words=r"^(?:API key (?:not (?:valid|found)|expired)|incorrect API key provided|login fail: "
        r"|(?:this )?organization has been (?:disabled|restricted))",
    ),
    # A route that names no model of the provider's. OpenAI, Groq, Zhipu; the texts are DeepSeek's, SiliconFlow's,
    # vLLM's, Mistral's, Bedrock's and OpenRouter's, with a 400.
    _kind(
        "model_not_found",
        404,
        names="model_decommissioned invalid_model 1211",
        words=r"\bmodel (?:(?:['\"`][^'\"`]{1,80}['\"`] )?(?:does )?not exist|identifier is invalid)"
        r"|is not a valid model ID",
    ),
    _kind(
        TOO_LONG,
        # llama.cpp; Anthropic's limit of bytes; GitHub Copilot; Zhipu
        names="exceed_context_size_error request_too_large model_max_prompt_tokens_exceeded 1261",
        # Messages about a rate limit use similar words, but there it helps to wait.
        words=r"^(?!.*(?:rate.?limit|per (?:min|day|hour)|too many requests|throttl|please wait|try again later))"
        r".*(?:prompt is too long|exceeds? context limit"  # Anthropic, Fireworks
        r"|maximum context(?: length)?\b|context[_ ]length[_ ]exceeded"  # OpenAI, vLLM, SGLang, DeepSeek, AI21
        # Most others: the name of a length, and words for "too much"
        r"|\b(?:context|prompt|inputs?|sequence|token)[ _](?:tokens?|length|len|count|size|window)\b"
        r"[^.]{0,40}\b(?:exceed(?:s|ed)?|too long|(?:longer|greater|larger) than|must be less than|only supports)\b"
        r"|\bexceed(?:s|ed|ing)?\b.{0,30}\b(?:context (?:window|length|size)|max_(?:seq|model)_len)"
        r"|(?:prompt|input|conversation) too long"  # Ollama, Replicate
        r"|input tokens exceed the configured limit"  # OpenAI
        r"|longer than the (?:maximum model|model'?s context) length"  # vLLM, SGLang
        r"|max_tokens must be at least 1, got -"  # vLLM, of what the prompt leaves
        r"|exceeds the available context size|larger than the max context size"  # llama.cpp
        r"|reduce the length of the (?:messages|prompt|input)"  # Groq, OpenAI
        r"|maximum prompt length is \d"  # xAI
        r"|max_new_tokens`? must be <=|`inputs` must have less than"  # TGI, Together
        r"|too many (?:input )?tokens"  # Cohere, Bedrock
        r"|input is too long"  # Bedrock
        r"|exceeded model token limit"  # Moonshot
        r"|range of input length should be|max input characters"  # DashScope, Baidu
        r"|prompt exceeds max"  # Zhipu
        r"|context window exceeds limit"  # MiniMax
        r"|greater than the context length|with context length of only|context overflow"  # LM Studio
        r"|cannot truncate prompt with n_keep"  # LM Studio, newer
        r"|sum of prompt length .{0,60} should not exceed"  # TensorRT-LLM
        r"|prompt token count of \d+ exceeds"  # GitHub Copilot
        r"|exceed max message tokens"  # Volcengine
        r"|configured context size is"  # DS4
        r"|exceed the total tokens limit"  # watsonx
        r"|(?:entity|payload) too large)",  # servers in front of a provider, with a limit of bytes
    ),
    _kind(
        FILTERED,
        # DashScope; Zhipu; MiniMax; StepFun
        names="data_inspection_failed 1301 1026 1027 censorship_blocked",
        words=r"content management policy|content filtering policy"  # Azure, Anthropic
        r"|rejected as a result of our safety system|potentially violating our usage policy"  # OpenAI
        r"|content exists risk"  # DeepSeek
        r"|violates usage guidelines"  # xAI
        r"|your input was flagged"  # OpenRouter
        r"|may contain inappropriate content"  # DashScope
        r"|considered high risk"  # Moonshot
        r"|prohibited.content|blocked by (?:our |the )?(?:safety|content|guardrail)"  # Gemini, gateways
        r"|(?:unsafe or|may contain|new_) ?sensitive|不安全或敏感内容"  # Zhipu, Volcengine, MiniMax
        r"|violates our (?:guardrails|policies|usage polic)",
        kept="content_policy_violation cyber_policy bio_policy moderation_blocked"
        " image_content_policy_violation",
    ),
    # Codes of OpenAI's Responses API; texts of Anthropic, Gemini and vLLM.
    _kind(
        "image_too_large",
        words=r"image (?:exceeds|size is too large|dimensions exceed)|image.{0,40}max allowed size",
        kept="image_file_too_large",
    ),
    _kind("image_too_small"),
    _kind("invalid_base64_image", words=r"invalid base64.{0,20}image|image.{0,40}invalid base64"),
    _kind(
        "invalid_image_format",
        words=r"image does not match the provided media type|unsupported image",
        kept="invalid_image invalid_image_mode unsupported_image_media_type",
    ),
    _kind(
        "image_parse_error",
        words=r"(?:could not|unable to) process (?:input )?image|cannot identify image",
        kept="empty_image_file",
    ),
    _kind(
        "failed_to_download_image",
        words=r"(?:failed|unable|error).{0,10} (?:to )?(?:download|fetch).{0,20} image",
        kept="invalid_image_url image_file_not_found",
    ),
    # Kinds of input that a model does not take (images, audio, tools): vLLM, OpenRouter, and llama.cpp with a 500
    _kind(
        "unsupported_input",
        words=r"(?:image|audio) input is not supported|is not a multimodal model"
        r"|no endpoints found that support",
    ),
    # OpenAI, Anthropic, Google, DashScope, Bedrock; the texts are Mistral's, SiliconFlow's, Bedrock's and
    # MiniMax's
    _kind(
        "rate_limit_exceeded",
        429,
        names="rate_limit_error too_many_requests RESOURCE_EXHAUSTED Throttling ThrottlingException"
        " rate_limit_reached_error Throttling.RateQuota 1302 rate_limited limit_requests",
        words=r"rate limit (?:is |was |has been )?(?:exceeded|reached)|too many requests|\b[RT]P[MD] limit exceeded"
        r"|too many tokens, please wait|^rate limit$",
    ),
    # OpenAI, Anthropic, Google, Moonshot, Bedrock, Zhipu
    _kind(
        "server_is_overloaded",
        529,
        names="overloaded_error UNAVAILABLE engine_overloaded_error ServiceUnavailableException"
        " service_unavailable_error model_overloaded 1305 over_capacity capacity_exceeded"
        " service_tier_capacity_exceeded unavailable_error ServerOverloaded",
        # Anthropic behind others; Gemini, TGI; SiliconFlow; Ollama
        words=r"overloaded_error|(?:model|engine|service|system) (?:is )?(?:currently )?(?:overloaded|too busy)"
        r"|server busy",
        kept="slow_down",
    ),
)


BY_NAME: Final = {name: kind for kind in KINDS for name in kind.names}


@dataclass(frozen=True, slots=True)
class Counts:
    """The tokens of a request that is too long."""

    used: int
    most: int
    asked: tuple[int, int] | None = None
    """The tokens of input and of requested output, if the message tells them."""


_SUMS: Final = (
    re.compile(r"(?P<given>\d+) \+ (?P<output>\d+) > (?P<most>\d+)"),  # Anthropic
    re.compile(r"<= (?P<most>\d+)\. Given: (?P<given>\d+)\D+?(?P<output>\d+)"),  # TGI
    re.compile(r"too large: (?P<output>\d+)\D+(?P<most>\d+)\D+(?P<given>\d+) input tokens"),  # vLLM
)
"""Match the tokens of input and of requested output, and the most for both together."""
_NOISE: Final = re.compile(
    r"<\d{3}>|(?:status|code|error|http|\bid|\bref)\W{0,4}\d+", re.IGNORECASE
)
_GROUPED: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_COUNT: Final = re.compile(r"(?<![\w.\-/])\d{3,9}(?![\w\-/]|\.(?!0\b)\d)")
"""Matches a count of tokens, but no number in a model's name."""
_MOST: Final = re.compile(
    r"(?:maximum (?:\w+ )?length (?:is|of)|limit(?: of|:| is)?|less than|max context length of|<=)"
    r" ?(\d{3,9})",
    re.IGNORECASE,
)
_OUTPUT: Final = re.compile(
    r"(\d+) (?:output|(?:tokens )?(?:in|for) (?:the|your) (?:completion|output))"
)


def read_counts(text: str) -> Counts | None:
    """Read how many tokens a request has and how many are allowed; None if the text does not tell both."""
    text = _NOISE.sub("", _GROUPED.sub("", text))
    for pattern in _SUMS:
        if found := pattern.search(text):
            given, output, most = (int(found[name]) for name in ("given", "output", "most"))
            return Counts(given + output, most, (given, output))
    counts = list(dict.fromkeys(int(one) for one in _COUNT.findall(text)))
    limit, completion = _MOST.search(text), _OUTPUT.search(text)
    if len(counts) < 2:  # noqa: PLR2004
        return None
    used = max(counts)
    rest = [one for one in counts if one != used]
    most = int(limit[1]) if limit else max(rest)
    output = int(completion[1]) if completion else 0
    asked = (used - output, output) if output and used - output in counts else None
    return Counts(used, most, asked) if used > most else None


_OPENAI: Final = re.compile(
    "this model's maximum context length is|input tokens exceed the configured limit", re.IGNORECASE
)


def tell_as_openai(message: str) -> str:
    """Write the message in OpenAI's words: LiteLLM, and agents that use it, ignore the code."""
    if _OPENAI.search(message):
        return message
    words, counts = "This model's maximum context length is", read_counts(message)
    if counts is None:
        return f"{words} exceeded: {message}"
    asked = f"your messages resulted in {counts.used} tokens"
    if counts.asked is not None:
        parts = "{} in the messages, {} in the completion".format(*counts.asked)
        asked = f"you requested {counts.used} tokens ({parts})"
    return f"{words} {counts.most} tokens. However, {asked}. {message}"


_ANTHROPIC: Final = re.compile(
    r"prompt is too long: \d+ tokens > \d+ maximum|exceed context limit: \d+ \+ \d+ > \d+"
)


def tell_too_long(message: str) -> str:
    """Write the message in Anthropic's words: Claude Code shortens a conversation only if it reads them."""
    if _ANTHROPIC.search(message):
        return message
    counts = read_counts(message)
    words = write_too_long(counts)
    if counts is None:
        return message if words in message else f"{words}: {message}"
    return f"{words}. {message}"


def write_too_long(counts: Counts | None) -> str:
    """Write Anthropic's words for a request that is too long.

    If the input alone fits, Claude Code reads the sum and asks again for less output.
    """
    words = "prompt is too long"
    if counts is None:
        return words
    words += f": {counts.used} tokens > {counts.most} maximum"
    if counts.asked is None or counts.asked[0] >= counts.most:
        return words
    given, output = counts.asked
    total = f"{given} + {output} > {counts.most}"
    return f"{words} (input length and `max_tokens` exceed context limit: {total})"
