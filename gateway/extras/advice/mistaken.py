"""Find mistakes in the place of a secret, a model's name, an address or a price, and say what to write.

Operators come from other gateways, whose files have variables, wildcards and endpoints in these places. No message
repeats what may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any, Final

from gateway.config.reader import looks_secret, show
from gateway.config.secrets import Mistake

_NAME: Final = r"([A-Za-z_][A-Za-z0-9_]*)"
_REFERENCE: Final = re.compile(
    "|".join(
        (
            rf"\$(?:env:)?{_NAME}",
            rf"%{_NAME}%",
            rf"[$#]?\{{+\s*\$?(?:(?:process\.)?(?:env|secrets?|vars?)[.:])?{_NAME}(?:\s*:?[-?][^}}]*)?\s*\}}+",
            rf"(?:os\.)?environ[/.]{_NAME}",
            rf"""(?:os\.|process\.)?env(?:iron)?\[["']{_NAME}["']\]""",
            rf"""os\.(?:getenv|environ\.get)\(["']{_NAME}["'].*\)""",
            rf"process\.env\.{_NAME}",
            rf"(?:System\.|Environment\.)?get(?:env|EnvironmentVariable)\(\s*[\"']?{_NAME}[\"']?\s*\)",
            rf"(?:Deno\.env\.get|import\.meta\.env)[.(\[][\"']?{_NAME}[\"']?[)\]]?",
            rf"!?env(?:://|[:/.]|\s+)\s*{_NAME}",
            rf"env\(\s*[\"']?{_NAME}[\"']?\s*\)",
        )
    ),
    re.IGNORECASE,
)
"""How other programs' files name a variable."""
_WITHIN: Final = re.compile(
    rf"[$#]\{{{_NAME}[^}}]*\}}|\{{\{{[^{{}}]*\}}\}}|(?:os\.environ|process\.env)[./\[]",
    re.IGNORECASE,
)
_SCHEMES: Final = re.compile(r"(?:api-?key|basic|bearer|key|token)\s+", re.IGNORECASE)
_BARE: Final = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:[A-Z0-9]+-)+(?:KEY|TOKEN|SECRET)"
    r"|(?:[A-Za-z0-9]+_)+(?i:api_?key)(?:_\d+)?"
)
_OTHER_PLACE: Final = re.compile(r"(file|command):", re.IGNORECASE)
_QUOTES: Final = "\"'“”„‘’«»"
_PLACEHOLDER: Final = re.compile(
    r"""\.{3} | … | \*{3} | ^(?:[a-z]+[-_])*x{3,}$ | ^<.*>$ | ^\[.*\]$
    | (?:^|[^a-z0-9])(?:your|insert|replace|paste|change)[-_ ]?(?:me|your|my|the|this|api|openai|key|token|secret|with|here)
    | (?:^|[^a-z0-9])key[-_ ]?(?:goes[-_ ])?here$ | ^(?:todo|fixme|tbd)$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ASSIGNED: Final = re.compile(r"(?:export\s+)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\s*=\s*[^=\s]")
_SCHEME: Final = re.compile(
    r"((?:bearer|basic|token|key|api-?key)(?=\s)|(?:authorization|x-api-key|api-key)(?=:))",
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(r"None|null|NULL|nil|undefined")
_HOME_PATH: Final = re.compile(r"~(/.+)")
_PATH: Final = re.compile(
    r"""\.{1,2}/.+ | [A-Z]:\\.+ | file://.+
    | /(?:app|data|etc|home|keys|mnt|opt|private|root|run|secrets|srv|tmp|usr|var|Users|Volumes)/[^+=]+
    | @ (?=.*(?:[./]|file|key|token|secret)) [\w./~-]+ | [\w-]+\.(?:env|json|key|pem|toml|txt|ya?ml)""",
    re.VERBOSE,
)
_PLAIN_PATH: Final = re.compile(r"/[a-z]{2,}(?:/[\w.@-]+)+")
_ELSEWHERE: Final = re.compile(
    r"""(?:vault|secretref|secretsmanager|keyvault|ssm|sops|keyring|keychain|(?:arn|aws|gcp|azure):[a-z]+):(?!//)
    | \{file: | !(?:secret|vault|ssm)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def find_variable(text: str) -> str | None:
    """Return the name of the variable that a text stands for, as in other programs' files."""
    found = _REFERENCE.fullmatch(text.strip())
    return next(filter(None, found.groups())) if found else None


def has_variable(text: str) -> bool:
    """Tell whether a text is a variable of other programs' files, has one in it, or one behind "Bearer"."""
    bare = _SCHEMES.sub("", text.strip(), count=1)
    return find_variable(bare) is not None or _WITHIN.search(text) is not None


_BEHIND: Final = ("write what stands behind it", "what stands behind it")
_OTHER_PROGRAM: Final = (
    "names a place in another program",
    "write command:PROGRAM, which prints it, or file:PATH",
)


def find_mistake(secret: str, is_written: bool) -> Mistake | None:
    """Return why a text cannot be a secret."""
    text = secret.strip()
    return next(chain(_list_places(text) if is_written else (), _list_mistakes(text)), None)


def _list_mistakes(text: str) -> Iterator[Mistake]:
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        yield Mistake(
            "has quotation marks of its own", "write it without them", "the {} without them"
        )
    if name := find_variable(text):
        yield Mistake("names a variable in another program's way", _name_variable(name))
    if _WITHIN.search(text):
        yield Mistake(
            "has a variable in it, which nothing replaces",
            "put the whole text into a variable, and write env:NAME",
            "the whole {}",
        )
    if "://" not in text and _PLACEHOLDER.search(text):
        yield Mistake(
            "is a placeholder",
            "write env:NAME, with the key in the variable NAME, or leave it out where none is needed",
        )
    if text.startswith(("$(", "`")):
        yield Mistake("is a shell's command", "write command:PROGRAM, or file:PATH")
    if _ASSIGNED.match(text):
        yield Mistake("begins with a variable's name and =", *_BEHIND)
    if scheme := _SCHEME.match(text):
        yield Mistake(f"begins with {scheme[1].title()}", *_BEHIND)


def _list_places(text: str) -> Iterator[Mistake]:
    """Yield what a text is that names the place of a secret, or says that there is none."""
    if _BARE.fullmatch(text) and not _PLACEHOLDER.search(text):
        yield Mistake("is the name of a variable", _name_variable(text.replace("-", "_")))
    if _NOTHING.fullmatch(text):
        yield Mistake(f"is {text}, which would be sent", "leave it out where none is needed")
    if home := _HOME_PATH.fullmatch(text):
        yield Mistake("is a path", _name_file(f"$HOME{home[1]}"))
    if _PATH.fullmatch(text) or (_PLAIN_PATH.fullmatch(text) and not looks_secret(text)):
        yield Mistake("is a path", _name_file(text.removeprefix("@")))
    if other := _OTHER_PLACE.match(text):
        yield Mistake("names a place in other letters", f"write {other[1].lower()}:...")
    if _ELSEWHERE.match(text):
        yield Mistake(*_OTHER_PROGRAM)


def _name_variable(name: str) -> str:
    return f"write env:{'NAME' if looks_secret(name) else name}"


def _name_file(path: str) -> str:
    return f"write file:{'PATH' if looks_secret(path) else path}"


_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def _judge_key(key: Any, problem: str) -> str:
    """Refuse an address in the place of a provider's key."""
    found = None if problem else _ADDRESS.match(key)
    if found and found[1].lower().startswith("http"):
        return "is an address, which belongs in base_url: write env:NAME, with the key in it"
    return ": ".join(_OTHER_PROGRAM) if found else problem


_PATTERN: Final = re.compile(r"\*|^\^|\$$|<.*>|\{.*\}", re.DOTALL)
_NO_MODEL: Final = (
    "is a pattern, which matches nothing here, as each model has its own price: write the whole name,"
    " and one table for each model"
)


def _judge_model_id(model_id: Any, problem: str) -> str:
    """Refuse a pattern or a placeholder in the place of a model's name."""
    return _NO_MODEL if not problem and _PATTERN.search(model_id) else problem


def _judge_aliases(aliases: Any, problem: str) -> str:
    found = () if problem else filter(_PATTERN.search, aliases)
    return next((f"has {show(one)}, which {_NO_MODEL}" for one in found), problem)


def _judge_routes(routes: Any, problem: str) -> str:
    found = () if problem else (one for one in routes if _PATTERN.search(one.partition("/")[2]))
    return next((f"has {show(one)}, which {_NO_MODEL}" for one in found), problem)


def _judge_headers(headers: Any, problem: str) -> str:
    found = () if problem else (name for name, content in headers.items() if has_variable(content))
    return next((f"has a variable as the value of {show(name)}, but is sent as it is written: a key"
            " belongs in api_key" for name in found), problem)  # fmt: skip


_ENDPOINT: Final = re.compile(
    r"""(?: /chat/completions | /completions | /responses(?:/input_tokens)? | /messages(?:/count_tokens)?
    | /embeddings | /images/(?:generations|edits|variations)
    | /audio/(?:speech|transcriptions|translations) | /rerank | /moderations
    | (?:(?<=/v1)|(?<=/v2)|(?<=/openai))/models | (?<=/v1)/(?:chat|complete|engines) | (?<=/v2)/chat
    | (?P<ollama>/api/(?:chat|generate|tags|embed|embeddings))
    | (?:/models)?/[^/]+:(?:stream)?(?:generateContent|rawPredict|predict) )$""",
    re.IGNORECASE | re.VERBOSE,
)
_AZURE: Final = re.compile(
    r"(https://[^/]+\.openai\.azure\.com)(?:/openai(?:/deployments/[^/]+)?)?"
)
_REPLACED: Final = re.compile(r"[{}<>]")
_WHOLE_ADDRESS: Final = re.compile(r"https?://[^\s@\\]+", re.IGNORECASE)


def _judge_base(address: object, problem: str) -> str:
    """Refuse an address with a variable, or of an endpoint, whose path is added to a base."""
    # Whatever the reader's problem is: this says more, as about an endpoint's address with a query.
    if not isinstance(address, str):
        return problem
    if has_variable(address) or _REPLACED.search(address):
        return "has a variable or a placeholder in it, which nothing replaces: write the address itself"
    whole = re.split(r"[?#]", address, maxsplit=1)[0].rstrip("/")
    found = _ENDPOINT.search(whole)
    if found and _WHOLE_ADDRESS.fullmatch(whole):
        base = whole[: found.start()] + ("/v1" if found["ollama"] else "")
        base = find_base(base) or base
        shown = "it without" if looks_secret(base) else f'base_url = "{base}"'
        return f"ends in the path of an endpoint, which is added to it: write {shown}"
    return problem


_BASES: Final = {
    "api.anthropic.com": "/v1",
    "api.groq.com": "/openai/v1",
    "api.mistral.ai": "/v1",
    "api.openai.com": "/v1",
    "api.x.ai": "/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
    "openrouter.ai": "/api/v1",
}
"""The path of the base address at well-known hosts. Hosts without one, such as DeepSeek's, are not here."""
_BASE_PORTS: Final = {"1234": "/v1", "11434": "/v1"}
"""The same of LM Studio and Ollama, by their ports."""
_ORIGIN: Final = re.compile(
    r"https?://(?P<host>[^/:\[\]@]+|\[[^/\]@]*\])(?::(?P<port>\d+))?(?![^/])", re.IGNORECASE
)
_TRIED: Final = frozenset({"", "/api", "/openai", "/v1", "/v1beta"})
"""Wrong paths that people write in its place."""


def find_base(base_url: str) -> str | None:
    """Return the address that is meant by one that a well-known provider answers with 404."""
    if azure := _AZURE.fullmatch(base_url):
        return f"{azure[1]}/openai/v1"
    found = _ORIGIN.match(base_url)
    path = found and (_BASES.get(found["host"].lower()) or _BASE_PORTS.get(found["port"]))
    if found is None or path is None or base_url[found.end() :] not in _TRIED - {path}:
        return None
    return f"{found[0]}{path}"


_LEAST: Final = Decimal("0.000001")
"""A smaller amount is not the price of a million units."""


def _judge_price(amount: object, problem: str) -> str:
    """Explain the refusal of an amount that is too fine."""
    if not problem or not isinstance(amount, Decimal) or amount.is_nan() or not 0 < amount < _LEAST:
        return problem
    return f"{problem}. Is it the price of one token? Write that of a million"


_JUDGES: Final[Mapping[str, Callable[[object, str], str]]] = {
    "aliases": _judge_aliases,
    "api_key": _judge_key,
    "base_url": _judge_base,
    "headers": _judge_headers,
    "model_id": _judge_model_id,
    "price": _judge_price,
    "routes": _judge_routes,
}
"""The judges by the subjects of values."""


def judge(subject: str, value: object, problem: str) -> str:
    """Return the problem of a value, given the problem that its reader has; "" if none."""
    look = _JUDGES.get(subject)
    return problem if look is None else look(value, problem)
