"""Guess what was meant in gateway.toml by a name that no setting has, or by text that is not TOML.

Other programs' files have other names for its settings, other languages have other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.config.reader import looks_secret
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


_VALUE: Final = r"[=\[,]\s*"
_END: Final = r"\s*(?:[,}\]#]|$)"
_MEANT: Final = (
    (r"[“”„‘’«»]", 'it has curly quotation marks; write straight ones: "'),
    (
        r"^\s*\[+\s*models\.(?P<name>[^\"'\]]+?)\s*\]",
        'put the name in quotation marks: [models."NAME"]',
    ),
    (
        r"^\s*\[+\s*providers\.(?P<name>[^\"'\]]+?)\s*\]",
        'put the name in quotation marks: [providers."NAME"]',
    ),
    (rf"{_VALUE}(?:True|TRUE|[Yy]es|YES|[Oo]n|ON){_END}", "write true"),
    (rf"{_VALUE}(?:False|FALSE|[Nn]o|NO|[Oo]ff|OFF){_END}", "write false"),
    (rf"{_VALUE}(?:None|null|NULL|nil){_END}", "there is no such value; leave the key out"),
    (r"^\s*(?:---|-\s)|^\s*[\w.-]+\s*:(?:\s|$)", "it looks like YAML; write key = value, [table]"),
    (r"^\s*\{|^\s*\"[^\"]*\"\s*:", "it looks like JSON; write key = value, [table]"),
    (r"^\s*(?://|/\*|;|<!--)", "a remark begins with #"),
    (r",\s*\}", "write no comma before }"),
    (r"\{[^}\"]*(?:\"[^\"]*\"[^}\"]*)*$", "what stands between { and } has to be on one line"),
    (rf"{_VALUE}\d{{1,3}}(?:,\d{{3}})+{_END}", "write 1_000 or 1000 for a thousand"),
    (rf"{_VALUE}\d+,\d+{_END}", "write a point before decimals, as in 0.15"),
    (rf"{_VALUE}(?:\.\d|\d+\.(?!\d))", "write digits on both sides of the point, as in 0.5"),
    (rf"{_VALUE}[$€£¥]", "write amounts without a sign of a currency"),
    (r"=\s*(?:[^\[{\s#].*|\[.*\])[;,]\s*(?:#.*)?$", "write no ; or , behind a value"),
    (rf"{_VALUE}\d[\d._]*\s*[A-Za-z%$€]", "a number has no unit; a text needs quotation marks"),
    (r"^\s*[\w.-]+\s*(?::=|=>|==)", "write key = value"),
    (r"^\s*export\s", "write key = value, without export"),
    (r"=\s*(?!true\b|false\b|inf\b|nan\b)[A-Za-z/~$<*]", "a text needs quotation marks"),
    (r"\"[^\"]*\\[^btnfr\"\\uU]", "write a text with \\ in single quotation marks"),
    (r"^\s*[\w.-]+\s+[\w\"'\[{]", "an = is missing between key and value"),
)
"""Patterns of a line, and what to say of the first one that is in it."""


def explain(error: ValueError, text: str) -> str | None:
    """Say what was meant in the line that a parser names, or how a file is encoded; None if that is not known.

    A text that `looks_secret` is not repeated.
    """
    if isinstance(error, UnicodeDecodeError):
        is_utf_16 = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
        return "this is UTF-16, as Windows writes it: save it as UTF-8" if is_utf_16 else None
    problem = str(error)
    found = re.search(r"\(at line (\d+), column \d+\)$", problem)
    lines = text.splitlines()
    if problem.startswith("Cannot") or not lines:  # well formed, but twice
        return None
    line = lines[min(int(found[1]), len(lines)) - 1] if found else lines[-1]
    for pattern, meant in _MEANT:
        if found := re.search(pattern, line):
            name = found.groupdict().get("name", "")
            return meant.replace("NAME", "..." if looks_secret(name) else name)
    return None
