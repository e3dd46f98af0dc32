"""The tables of callers' fields: what a request may state under several names, and which spellings it may use.

A name that the gateway checks, reads, writes or leaves out has one spelling (`names` says why). A provider
may also read members that the gateway does not know. So a member that looks like a file counts as the
largest input that a model can read; see `usage.UNBOUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping
from math import ceil, floor
from typing import Final, get_args

from gateway.base.usage import UNBOUNDED
from gateway.dialects.wire.billed import BAGS, CACHES, FUNCTION, GEMINI_TOOLS, MAY_COST, STORED
from gateway.dialects.wire.fields import MAX_TOKENS_BOUND, Check, Fields, check_integer
from gateway.dialects.wire.names import Names
from gateway.dialects.wire.records import SAMPLING, CompletionRequest, Json, MaxTokensField, Taken

MAX_CHOICES: Final = 128
"""Choices of a reply: OpenAI's own limit."""
_CHOICES: Final = (
    # As TGI and vLLM (`best_of`), Google, Hugging Face, Cohere, DeepInfra and AI21 call `n`, and beams.
    *("beam_width", "best_of", "candidate_count", "n_completions", "num_beams", "num_completions"),
    *("num_generations", "num_outputs", "num_responses", "num_results", "num_return_sequences"),
    *("num_samples", "samples"),
)
_LIMITS: Final = (
    # As Google, TGI and Hugging Face, llama.cpp, Ollama and Llama's API call the limit of output.
    *("max_completion_tokens", "max_gen_len", "max_length", "max_new_tokens", "max_output_tokens"),
    *("max_tokens", "max_tokens_to_sample", "n_predict", "num_predict"),
    # These may let a model write more: vLLM's and SGLang's least outputs, and budgets of DashScope and
    # llama.cpp for reasoning.
    *("min_length", "min_new_tokens", "min_tokens"),
    *("reasoning_budget", "thinking_budget", "thinking_budget_tokens"),
)
_DIGIT: Final = re.compile(r"\d")
_NUMBER_CHARS: Final = 64
"""Characters of a string that are searched for a number: a number has fewer, and a string may have MiB."""


def _count(value: object) -> int | None:
    """Return the largest integer that a provider may read from a value; 0 if the value is no number.

    Another vendor's field of the same name may be a flag or a fraction. The result is None for a string
    with a digit, as some providers read "9" as 9.
    """
    match value:
        case bool() | int():
            return int(value)
        case float():
            bound = 2.0 * MAX_TOKENS_BOUND
            return floor(max(value, -bound)) if value < 0 else ceil(min(value, bound))
        case str() if _DIGIT.search(value.strip()[:_NUMBER_CHARS]):
            return None
        case _:
            return 0


def _check_count(least: int, most: int) -> Check:
    check = check_integer(least, most)

    def check_count(name: str, value: object) -> None:
        count = _count(value)
        check(name, value if count is None else count)

    return check_count


COUNTED: Final[Mapping[str, Check]] = {
    **dict.fromkeys(_CHOICES, _check_count(0, MAX_CHOICES)),
    # -1 is no limit to llama.cpp.
    **dict.fromkeys(_LIMITS, _check_count(-1, MAX_TOKENS_BOUND)),
}
"""Fields of a request for text that multiply the output, which the hold covers, with their checks."""

FILE_NAMES: Final = Names(("data", "file_data", "file_id", "url"))
"""Members of a file in a conversation."""
MARK_NAMES: Final = {"cache_control": Names(("ttl", "type"))}
"""Members of a mark for a provider's prompt cache, of which one sets the price."""
_PLACE: Final = Names(("file_ids", "id", "skills", "type"))
_PLACES: Final = {"container": _PLACE, "environment": _PLACE}
_TOOL: Final = Names(
    {*STORED, *FUNCTION, *GEMINI_TOOLS, "description", "file_ids"}
    | {"input_schema", "max_uses", "parameters", "strict", "type"},
    {**_PLACES, **MARK_NAMES},
)
TOOL_NAMES: Final = Names(_TOOL.known, {**_PLACES, **MARK_NAMES, "tools": _TOOL})
"""Members of a tool. Some hold tools themselves (`namespace`)."""
_READ: Final = frozenset(
    {*MAY_COST, *SAMPLING, *get_args(MaxTokensField), *get_args(Taken), "anthropic_version"}
    | {"file", "functions", "include", "input", "max_output_tokens", "messages", "model", "n"}
    | {"prompt", "reasoning_effort", "store", "stream", "text", "user"}
)
"""Fields that the gateway reads, writes or leaves out in a request of some dialect."""
_WITHIN: Final[Mapping[str, Names]] = {
    "container": _PLACE,
    **MARK_NAMES,
    "output_config": Names(("effort", "format")),
    "reasoning": Names(("effort", "enabled", "exclude", "max_tokens", "summary")),
    "stream_options": Names(("include_usage",)),
    "thinking": Names(("budget_tokens", "type")),
    "tool_choice": Names(("mode", "name", "type"), {"tools": _TOOL}),
    "tools": TOOL_NAMES,
    "web_search_options": Names(("allowed_domains", "blocked_domains", "max_uses")),
}
"""The members of fields that the gateway reads or writes."""
_OUTSIDE: Final = ("messages", "model", "n", "response_modalities")
"""Members that must not stand in a bag (`BAGS`), besides those that are counted or billed."""


def _list_inner(rows: Collection[str]) -> Mapping[str, Names]:
    """Return the members of fields that the gateway reads, or that change the bill in any place."""
    outside = {*MAY_COST, *COUNTED, *rows, *_OUTSIDE}.difference(BAGS)
    # `google` may stand within `extra_body`. No bag may stand deeper, where nothing would check it.
    inmost = dict.fromkeys(BAGS, Names((), elsewhere=outside.union(BAGS)))
    bag = Names((), inmost, outside)
    google = {**inmost, "google": Names(CACHES, elsewhere=outside.union(BAGS))}
    cached = dict.fromkeys(("extra_body", "google"), Names(CACHES, google, outside))
    return {**_WITHIN, **dict.fromkeys(BAGS, bag), **cached}


def make_fields(
    checks: Mapping[str, Check], rows: Collection[str] = (), item: str = "[{}]"
) -> Fields:
    """Make the table of the fields of requests.

    `rows`: fields that multiply a service; `item` is how errors name an item of an array.
    """
    return Fields(checks, _READ.union(rows), _list_inner(rows), item)


def count_output(body: Json, n: int, limit: int, own: frozenset[str]) -> tuple[int, int | None]:
    """Return the choices and the limit of each, as a provider may read them.

    `n` and `limit` are those of the dialect's `own` fields. If `limit` is 0 (none), no other field sets it.
    """
    others = (COUNTED.keys() & body) - own
    if not others:  # as in nearly all requests
        return n, limit or None
    counts = {name: _count(body[name]) or 0 for name in others}
    limits = [limit, *(counts[name] for name in others if name not in _CHOICES)]
    most = max(limits) if limit and min(limits) >= 0 else None
    return max([n, *(counts[name] for name in others if name in _CHOICES)]), most


_MEDIA: Final = re.compile(
    "attach|audio|document|file|image|input|media|message|modal|pdf|source|url|video", re.IGNORECASE
)
"""Matches the names of members that may hold files, or refer to them."""
ORDINARY: Final = frozenset(
    {"audio", "input", "instructions", "max_completion_tokens", "max_output_tokens", "max_tokens"}
    | {"messages", "metadata", "modalities", "model", "response_format", "stream"}
    | {"stream_options", "system", "temperature", "tool_choice", "tools"}
)
"""Members of a request for text that hold no files, despite their names, or that are checked elsewhere."""
_NAME_CHARS: Final = 64
"""Characters of a name that is searched; a longer name counts as one that may hold a file."""
_ADDRESS: Final = re.compile(r"(?:file|gs|https?|s3)://", re.IGNORECASE)
_DATA: Final = re.compile(r"data:[\w.+-]{1,100}/", re.IGNORECASE)
_ADDRESS_CHARS: Final = 4096
"""Characters that are searched for a space: a text with one is no address."""
_CONTENT_CHARS: Final = 256
"""Characters of a string under such a name, beyond which it may be the content of a file: names and ids
are shorter."""


def is_reference(text: str) -> bool:
    """Return whether a text is only the address of a file, or begins as a data URL."""
    head = text.lstrip()[:_ADDRESS_CHARS].rstrip()
    if _ADDRESS.match(head):
        return len(head.split(maxsplit=1)) == 1
    return _DATA.match(head) is not None


def add_others(request: CompletionRequest, held: object, known: Container[str] = ()) -> None:
    """Raise `more_tokens` if a part of a request may have files under names that are not `known`."""
    if type(held) is dict and has_files(held, known):
        request.more_tokens = max(request.more_tokens, UNBOUNDED)


def has_files(held: Json, known: Container[str] = ()) -> bool:
    """Return whether an object may have files under names that are not `known`, or in a bag."""
    for name, value in held.items():
        if not value or name in known:
            continue
        if name in BAGS and type(value) is dict:
            # Three levels at most: `known` refuses a bag within the second one.
            if has_files(value):
                return True
        elif len(name) > _NAME_CHARS or _MEDIA.search(name):
            if type(value) is dict or type(value) is list:
                return True
            if type(value) is str and (len(value) > _CONTENT_CHARS or is_reference(value)):
                return True
    return False
