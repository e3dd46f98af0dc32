"""Readers of gateway.toml's values with special rules: addresses, headers, routes, secrets.

Each raises ValueError with the rule. The message never repeats a value that may hold a secret: a
key, a header value, or an address with a password or a query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from ipaddress import ip_network
from pathlib import PurePath
from types import MappingProxyType
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gateway.base.addresses import Network
from gateway.base.prices import name_tier
from gateway.base.times import maybe_seconds, read_date, read_hours, read_weekdays
from gateway.config.reader import Read, Setting, show, suggest
from gateway.config.scalars import integer, matching, text
from gateway.ledger.checks import MAX_MODEL_CHARS

RESERVED_HEADERS: Final = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-encoding"}
    | {"content-length", "content-type", "cookie", "expect", "host", "keep-alive", "te", "trailer"}
    | {"proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade", "x-api-key"}
)
"""Headers that the gateway sets itself, or that would break the framing of its requests."""

LEAST_DURATION_SECONDS: Final = 10
"""Seconds between two runs of a command, which may take as long."""
MOST_DURATION_SECONDS: Final = 30 * 86_400
"""Seconds: no cloud gives keys for longer."""
MAX_PORT: Final = 65535
"""The largest number of a TCP port: it has 16 bits."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
URL = re.compile(r"[\x21-\x7e]+")


def base_url(value: object) -> str:
    """Read an http(s) address; a trailing slash is removed."""
    # Parsers disagree on a backslash: to some it is a slash, which ends the host.
    if not isinstance(value, str) or not URL.fullmatch(value) or "\\" in value:
        raise ValueError('must be an address such as "https://api.example.com/v1"')
    if "@" in value or "?" in value or "#" in value:
        raise ValueError(
            "must have no user name, password, query or fragment; use api_key or headers"
        )
    parts = split_address(
        value, f"must be an address with a valid host and port, not {show(value)}"
    )
    if not has_host(parts, "http", "https"):
        raise ValueError(f"must begin with http:// or https:// and a host, not {show(value)}")
    return value.rstrip("/")


def duration(value: object) -> int:
    """Read how often something is done, such as "50m", in seconds."""
    seconds = maybe_seconds(value) if isinstance(value, str) else None
    if seconds is None or not LEAST_DURATION_SECONDS <= seconds <= MOST_DURATION_SECONDS:
        raise ValueError(f'must be a time from "10s" to "30d", such as "50m", not {show(value)}')
    return seconds


def check_proxy(value: str) -> None:
    """Raise ValueError if the value is not a proxy's address."""
    problem = 'must be an address such as "http://user:password@proxy.example.com:3128"'
    parts = split_address(value, problem)
    extra = parts.path.rstrip("/") or parts.query or parts.fragment
    if not parts.port or not has_host(parts, "http") or extra:
        raise ValueError(problem)


def split_address(value: str, problem: str) -> SplitResult:
    """Split an address. Raises ValueError with the problem if its host or port is malformed."""
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError(problem) from None  # the cause's text may repeat a password
    return parts


def has_host(parts: SplitResult, *schemes: str) -> bool:
    """Return whether an address has one of the schemes and a host that DNS could resolve."""
    host = parts.hostname or ""
    try:
        host.encode("idna")  # no label is empty or longer than 63 bytes
    except UnicodeError:
        host = host if ":" in host else ""  # an IPv6 address is not a name
    return parts.scheme in schemes and parts.port != 0 and host != ""


_ELSEWHERE = re.compile(r"\s*(?:[\w+.-]+://|(?:env|file|command):)", re.ASCII | re.IGNORECASE)


def database_file(value: object) -> str:
    """Read the path of a database. An address is refused: folders would get its password as a name."""
    path = text(value)
    if _ELSEWHERE.match(path) or PurePath(path).name in ("", ".."):
        raise ValueError(
            'must be the path of a file itself, such as "gateway.db", and is read from no variable'
            " or file; the address of a PostgreSQL database belongs in url"
        )
    return path


def origin(value: object) -> str:
    """Read scheme, host and port, in the form of a browser's Origin header."""
    parts = urlsplit(base_url(value))
    if parts.path:
        raise ValueError(f"must end after host and port, without a path, not {show(value)}")
    # Browsers leave the scheme's own port out of an origin (RFC 6454 §6.2).
    default = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default) else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}"


def array(read_item: Read, example: str) -> Callable[[object], tuple[object, ...]]:
    """Make a reader of arrays; `example` completes "must be an array such as …"."""

    def read(value: object) -> tuple[object, ...]:
        if not isinstance(value, list):
            raise ValueError(f"must be an array such as {example}, not {show(value)}")  # noqa: TRY004 - a reader's one error
        return tuple(map(read_item, value))

    return read


def _network(value: object) -> Network:
    try:
        # Strict: an address with a mask in place of a network is taken for a typing error.
        return ip_network(text(value))
    except ValueError as error:
        raise ValueError(
            f'must list addresses or networks such as "10.0.0.0/8", not {show(value)}'
        ) from error


networks = array(_network, '["127.0.0.1", "10.0.0.0/8"]')
"""Read addresses and networks in CIDR notation."""
_variable = matching(r"[A-Za-z_][A-Za-z0-9_]*", 'a variable\'s name such as "CLOUDSDK_CONFIG"')
variables = array(_variable, '["CLOUDSDK_CONFIG"]')
"""Read names of environment variables."""


def names(known: Collection[str]) -> Read:
    """Make a reader of arrays of known names."""

    def read_name(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"has {show(value)}; {suggest(str(value), sorted(known))}")
        return value

    read = array(read_name, f'["{min(known)}"]')
    return lambda value: frozenset(read(value))


def headers(value: object) -> Mapping[str, str]:
    """Read extra request headers; names keep their case."""
    if not isinstance(value, dict):
        raise ValueError(f'must be a table such as {{ X-Team = "a" }}, not {show(value)}')  # noqa: TRY004 - a reader's one error
    seen: set[str] = set()
    for name, content in value.items():
        _check_header(name, content)
        # TOML tells names by case, HTTP does not (RFC 9110 §5.1).
        if name.lower() in seen:
            raise ValueError(f"has the header {show(name)} twice")
        seen.add(name.lower())
    return MappingProxyType(dict(value))


def _check_header(name: str, content: object) -> None:
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"has {show(name)}, which is not a header name")
    if name.lower() in RESERVED_HEADERS:
        raise ValueError(
            f"must not have {show(name)}: the gateway sets it (a key belongs in api_key)"
        )
    # A line break in a value would begin another header.
    if not isinstance(content, str) or not _PRINTABLE.fullmatch(content):
        raise ValueError(f"must have printable ASCII on one line as the value of {show(name)}")


def _header_name(value: object) -> str:
    name = text(value)
    _check_header(name, "")
    return name.lower()


header_names = array(_header_name, '["x-grok-conv-id"]')
"""Read names of headers, in lower case."""


def routes(value: object) -> tuple[tuple[str, str], ...]:
    """Read pairs of provider and upstream model, split at the first slash."""
    if not isinstance(value, list) or not value:
        raise ValueError('must be an array such as ["openai/gpt-4o-mini"] with at least one route')
    pairs = tuple(_route(item) for item in value)
    for index, pair in enumerate(pairs):
        if pair in pairs[:index]:
            raise ValueError(f"has {show('/'.join(pair))} twice")
    return pairs


def _route(value: object) -> tuple[str, str]:
    provider, slash, upstream_model = text(value).partition("/")
    if not (provider.strip() and slash and upstream_model.strip()):
        raise ValueError(f'must have routes like "provider/upstream model", not {show(value)}')
    return provider, upstream_model


def check_model_id(model_id: str) -> None:
    """Raise ValueError for an id that callers cannot write or that would break a log line."""
    if not model_id.strip() or model_id != model_id.strip():
        raise ValueError("a model id must not be empty or have spaces around it")
    if len(model_id) > MAX_MODEL_CHARS:
        raise ValueError(f"a model id must have at most {MAX_MODEL_CHARS} characters")
    if not model_id.isprintable():
        raise ValueError("a model id must have no control characters")


def _alias(value: object) -> str:
    alias = text(value)
    check_model_id(alias)
    return alias


aliases = array(_alias, '["gpt-4o-mini-2024-07-18"]')
"""Read other names of a model."""


def service_tier(value: object) -> str:
    """Return the service tier of a rule, by the name that replies are compared with."""
    tier = name_tier(text(value))
    if not tier:
        raise ValueError('must be a tier that a reply can name, such as "priority", not "auto"')
    return tier


MAX_TOKENS: Final = 100_000_000
"""Tokens of a model's input or output: fifty times the largest model of today, so more is a typing error."""
_word = matching(r"[A-Za-z0-9_.-]{1,40}", "a word")
CONDITIONS: Final = {
    "input_above": Setting(integer(0, MAX_TOKENS), None),
    "service_tier": Setting(service_tier, None),
    "speed": Setting(_word, None),
    "inference_geo": Setting(_word, None),
    "hours": Setting(read_hours, None),
    "weekdays": Setting(read_weekdays, None),
    "from": Setting(read_date, None),
    "until": Setting(read_date, None),
}
"""The conditions of a rule."""
