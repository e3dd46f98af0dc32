"""Readers of gateway.toml's values with special rules: addresses, headers, routes, secrets.

Each raises ValueError with the rule. The message never repeats a value that may hold a secret: a
key, a header value, or an address with a password or a query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gateway.config.reader import show, suggest, text
from gateway.dialects import BILLED_NAMES
from gateway.prices import name_tier

if TYPE_CHECKING:
    from pathlib import Path

MAX_MODEL_ID_CHARS: Final = 200
"""Characters of a model's id, which stands in each log line and in each row of the ledger."""

RESERVED_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
    }
)
"""Headers that the gateway sets itself, or that would break the framing of its requests."""

Network = IPv4Network | IPv6Network

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_SECRET = re.compile(r"[\x21-\x7e]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VARIABLE_USE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_URL = re.compile(r"[\x21-\x7e]+")


def base_url(value: object) -> str:
    """Read an http(s) address; a trailing slash is removed."""
    if not isinstance(value, str) or not _URL.fullmatch(value) or "\\" in value:
        raise ValueError('must be an address such as "https://api.example.com/v1"')
    if "@" in value or "?" in value or "#" in value:
        raise ValueError(
            "must have no user name, password, query or fragment; use api_key or headers"
        )
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(
            f"must be an address with a valid host and port, not {show(value)}"
        ) from error
    if parts.scheme not in {"http", "https"} or not host or port == 0 or not _is_host(host):
        raise ValueError(f"must begin with http:// or https:// and a host, not {show(value)}")
    return value.rstrip("/")


def check_proxy(value: str) -> None:
    """Raise ValueError if the value is not a proxy's address.

    The message never repeats the value, which may hold a password.
    """
    problem = 'must be an address such as "http://user:password@proxy.example.com:3128"'
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(problem) from None  # its text may repeat the password
    extra = parts.path.rstrip("/") or parts.query or parts.fragment
    if parts.scheme != "http" or not port or not host or not _is_host(host) or extra:
        raise ValueError(problem)


def _is_host(host: str) -> bool:
    """Tell whether a host can be resolved at all: DNS has no empty label and none beyond 63 bytes."""
    try:
        host.encode("idna")
    except UnicodeError:
        return ":" in host  # an IPv6 address is no name
    return True


def origin(value: object) -> str:
    """Read scheme, host and port, in the form of a browser's Origin header."""
    address = base_url(value)
    parts = urlsplit(address)
    if parts.path:
        raise ValueError(f"must end after host and port, without a path, not {show(value)}")
    default = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default) else f":{parts.port}"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{port}"


def networks(value: object) -> tuple[Network, ...]:
    """Read addresses and networks in CIDR notation."""
    if not isinstance(value, list):
        raise ValueError(f'must be an array such as ["127.0.0.1", "10.0.0.0/8"], not {show(value)}')  # noqa: TRY004 - a reader's one error
    return tuple(_network(item) for item in value)


def _network(value: object) -> Network:
    try:
        return ip_network(text(value))
    except ValueError as error:
        raise ValueError(
            f'must list addresses or networks such as "10.0.0.0/8", not {show(value)}'
        ) from error


def headers(value: object) -> Mapping[str, str]:
    """Read extra request headers; names keep their case."""
    if not isinstance(value, dict):
        raise ValueError(f'must be a table such as {{ X-Team = "a" }}, not {show(value)}')  # noqa: TRY004 - a reader's one error
    seen: set[str] = set()
    for name, content in value.items():
        _check_header(name, content)
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
    if not isinstance(content, str) or not _PRINTABLE.fullmatch(content):
        raise ValueError(f"must have printable ASCII on one line as the value of {show(name)}")


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
    if len(model_id) > MAX_MODEL_ID_CHARS:
        raise ValueError(f"a model id must have at most {MAX_MODEL_ID_CHARS} characters")
    if not model_id.isprintable():
        raise ValueError("a model id must have no control characters")


def secret(value: object) -> str:
    """Read the place of a secret (`env:`, `file:`) or the secret itself, without resolving it."""
    if not isinstance(value, str):
        raise ValueError('must be a text: "env:NAME", "file:PATH" or the value itself')  # noqa: TRY004 - a reader's one error
    if not value:
        raise ValueError("must not be empty; leave it out where none is needed")
    kind, colon, rest = value.partition(":")
    if colon and kind == "env" and not _VARIABLE.fullmatch(rest):
        raise ValueError('must name an environment variable: "env:NAME"')
    if colon and kind == "file" and not rest.strip():
        raise ValueError('must name a file: "file:PATH"')
    return value


def resolve_secret(value: str, folder: Path, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the secret and None, or "" and the reason why the provider is off."""
    kind, _, rest = value.partition(":")
    if kind == "env" and rest:
        found = environ.get(rest, "").strip()
        if not found:
            return "", f"the environment variable {rest} is not set"
        return _check_secret(found, f"the environment variable {rest}"), None
    if kind == "file" and rest:
        path = folder / expand_variables(rest, environ)
        return _check_secret(_read_secret(path), f"the file {path}"), None
    return _check_secret(value, "it"), None


def expand_variables(path: str, environ: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}`, so that systemd's $CREDENTIALS_DIRECTORY can be used."""

    def expand(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not environ.get(name):
            raise ValueError(f"needs the environment variable {name}, which is not set")
        return environ[name]

    return _VARIABLE_USE.sub(expand, path)


def _read_secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise ValueError(f"cannot be read from {path}: the file is not UTF-8 text") from error
    except OSError as error:
        raise ValueError(f"cannot be read from {path}: {error.strerror}") from error


def _check_secret(secret: str, holder: str) -> str:
    if not _SECRET.fullmatch(secret):
        raise ValueError(f"must be one word of printable ASCII, which {holder} does not hold")
    return secret


def billed_names(value: object) -> frozenset[str]:
    """Names from the dialects' tables of what changes a provider's bill."""
    if not isinstance(value, list):
        raise ValueError(f'must be an array such as ["service_tier"], not {show(value)}')  # noqa: TRY004 - a reader's one error
    for name in value:
        if not isinstance(name, str) or name not in BILLED_NAMES:
            raise ValueError(f"has {show(name)}; {suggest(str(name), sorted(BILLED_NAMES))}")
    return frozenset(value)


def service_tier(value: object) -> str:
    """Return the service tier of a rule, by the name that replies are compared with."""
    tier = name_tier(text(value))
    if not tier:
        raise ValueError('must be a tier that a reply can name, such as "priority", not "auto"')
    return tier
