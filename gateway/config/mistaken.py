"""What stands in the place of a secret, a model's name or an address by mistake, and what to write.

Operators come from other gateways, whose files have variables, wildcards and endpoints in these places. No message
repeats what may be a secret.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.config.reader import looks_secret

_NAME: Final = r"([A-Za-z_][A-Za-z0-9_]*)"
_REFERENCE: Final = re.compile(
    "|".join(
        (
            rf"\$(?:env:)?{_NAME}",
            rf"%{_NAME}%",
            rf"\$?\{{+\s*\$?(?:(?:process\.)?(?:env|ENV|secrets?)[.:])?{_NAME}(?:\s*:?[-?][^}}]*)?\s*\}}+",
            rf"(?:os\.)?environ[/.]{_NAME}",
            rf"""(?:os\.|process\.)?env(?:iron)?\[["']{_NAME}["']\]""",
            rf"""os\.(?:getenv|environ\.get)\(["']{_NAME}["'].*\)""",
            rf"process\.env\.{_NAME}",
            rf"env(?:://|[:/.]|\s+)\s*{_NAME}",
            rf"env\(\s*[\"']?{_NAME}[\"']?\s*\)",
        )
    ),
    re.IGNORECASE,
)
"""How other programs' files name a variable."""
_WITHIN: Final = re.compile(rf"\$\{{{_NAME}[^}}]*\}}")
_BARE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:[A-Za-z0-9]+_)+(?i:api_?key)(?:_\d+)?")
_OTHER_PLACE: Final = re.compile(r"(file|command):(?!//)", re.IGNORECASE)
_QUOTES: Final = "\"'“”„‘’«»"
_PLACEHOLDER: Final = re.compile(
    r"""\.{3} | … | \*{3} | ^(?:[a-z]+[-_])*x{3,}$ | ^<.*>$ | ^\[.*\]$
    | (?:^|[^a-z0-9])(?:your|insert|replace|paste|change)[-_ ]?(?:me|your|my|the|this|api|openai|key|token|secret|with|here)
    | (?:^|[^a-z0-9])key[-_ ]?(?:goes[-_ ])?here$ | ^(?:todo|fixme|tbd)$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ASSIGNED: Final = re.compile(r"(?:export\s+)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\s*=\s*[^=\s]")
_SCHEME: Final = re.compile(r"(bearer|basic|authorization)[\s:]", re.IGNORECASE)


def find_variable(text: str) -> str | None:
    """Return the name of the variable that a text stands for, as in other programs' files."""
    found = _REFERENCE.fullmatch(text.strip())
    return next(filter(None, found.groups())) if found else None


def refuse_no_secret(secret: str, holder: str, *, is_written: bool) -> None:
    """Raise ValueError if a text cannot be the secret that it stands for; `holder` says what holds it.

    `is_written`: in the file itself, where it may have been meant as a place.
    """
    text, where = secret.strip(), "" if is_written else f" in {holder}"
    if text[:1] and (text[0] in _QUOTES or text[-1] in _QUOTES):
        raise ValueError(f"has quotation marks of its own{where}: write it without them")
    if name := find_variable(text):
        raise ValueError(_advise(name, f"names a variable in another program's way{where}"))
    if found := _WITHIN.search(text):
        raise ValueError(_advise(found[1], f"has a variable in it{where}, which nothing replaces"))
    if "://" not in text and _PLACEHOLDER.search(text):
        raise ValueError(
            f"is a placeholder{where}: write env:NAME, with the key in the variable NAME, or leave it"
            " out where none is needed"
        )
    if is_written and _BARE.fullmatch(text):
        raise ValueError(_advise(text, "is the name of a variable"))
    if is_written and (other := _OTHER_PLACE.match(text)):
        raise ValueError(f"names a place in other letters: write {other[1].lower()}:...")
    if text.startswith(("$(", "`")):
        raise ValueError(f"is a shell's command{where}: write command:PROGRAM, or file:PATH")
    if _ASSIGNED.match(text):
        raise ValueError(f"begins with a variable's name and ={where}: write what stands behind it")
    if scheme := _SCHEME.match(text):
        raise ValueError(f"begins with {scheme[1].title()}{where}: write what stands behind it")


def _advise(name: str, problem: str) -> str:
    return f"{problem}: write env:{'NAME' if looks_secret(name) else name}"


_PATTERN: Final = re.compile(r"\*|^\^|\$$|<.*>|\{.*\}", re.DOTALL)


def refuse_pattern(model: str) -> None:
    """Raise ValueError for a pattern or a placeholder in the place of a model's name."""
    if _PATTERN.search(model):
        raise ValueError(
            "is a pattern, which matches nothing here, as each model has its own price: write the"
            " whole name, and one table for each model"
        )


_ENDPOINT: Final = re.compile(
    r"""(?: /chat/completions | /completions | /responses(?:/input_tokens)? | /messages(?:/count_tokens)?
    | /embeddings | /images/(?:generations|edits|variations)
    | /audio/(?:speech|transcriptions|translations) | /rerank | /moderations
    | (?:(?<=/v1)|(?<=/v2)|(?<=/openai))/models
    | (?:/models)?/[^/]+:(?:stream)?(?:generateContent|rawPredict|predict) )$""",
    re.IGNORECASE | re.VERBOSE,
)


def refuse_endpoint(address: str) -> None:
    """Raise ValueError for an address that ends in the path of an endpoint, which is added to it."""
    base = _ENDPOINT.sub("", address)
    if base != address:
        shown = "it without" if looks_secret(base) else f'base_url = "{base}"'
        raise ValueError(f"ends in the path of an endpoint, which is added to it: write {shown}")
