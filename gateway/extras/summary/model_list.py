"""Check a provider before anybody depends on it, by its list of models. No completion is asked for."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import orjson
from yarl import URL

from gateway.base.deadlines import limit_seconds
from gateway.base.errors import OutOfResources, UpstreamError, take_out
from gateway.base.ids import find_last4
from gateway.config.records import Config, Provider
from gateway.dialects.exchanges import looks_like_json, trim
from gateway.dialects.wire.failures import map_status
from gateway.extension import find_formats
from gateway.upstream.connection import Pool
from gateway.upstream.dial import Dialer
from gateway.upstream.forwarder import list_headers
from gateway.upstream.receivers import CollectedBody
from gateway.upstream.response import Broken

LOOK_SECONDS: Final = 10.0
"""The time for an answer: providers take about a second."""
_OK: Final = 200
"""The status of an answer with a list."""
_KEY_REFUSED: Final = frozenset({401, 403})
_NOT_FOUND: Final = frozenset({404, 405, 501})
_KINDS: Final = {"connect": "cannot be reached", "TLS": "TLS failed"}
"""The beginnings of causes, and words for them."""
_LIMITED: Final = 429
"""The status of a provider that works but limits us at the moment."""

Verdict = Literal[
    "well", "unknown_models", "no_list", "limited", "key_refused", "wrong_path", "failed"
]
USABLE: Final[frozenset[Verdict]] = frozenset({"well", "unknown_models", "no_list", "limited"})
"""Verdicts on providers that can probably serve callers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a look at a provider's list of models; `words` are for people."""

    provider: str
    url: str
    verdict: Verdict
    words: str
    unknown: tuple[str, ...] = ()
    """The models of the configuration that are not in the list."""

    @property
    def is_usable(self) -> bool:
        return self.verdict in USABLE


@dataclass(frozen=True, slots=True)
class _Listing:
    status: int
    body: bytes

    @property
    def is_settled(self) -> bool:
        """Return whether the path is right: the answer is a list or asks for another key."""
        return self.status in _KEY_REFUSED or self.list_models() is not None

    def list_models(self) -> tuple[frozenset[str], bool] | None:
        """Return the models' names and whether there are more; None if this is no list."""
        try:
            body = orjson.loads(trim(self.body)) if self.status == _OK else None
        except orjson.JSONDecodeError:
            return None
        if not isinstance(body, dict) or not isinstance(rows := body.get("data"), list):
            return None
        ids = (row.get("id") for row in rows if isinstance(row, dict))
        # Gemini's names have a path before them.
        names = frozenset(one.removeprefix("models/") for one in ids if isinstance(one, str))
        return names, bool(body.get("has_more"))


async def look_at_all(config: Config) -> list[Finding]:
    """Check all providers that are on, except the built-in one: all at once, and once with each key."""
    on = [one for one in config.providers.values() if one.off is None and one.base_url]
    looks = [
        look_at(by_one_key, config.upstream_models_of(one))
        for one in on
        for by_one_key in _split_by_key(one)
    ]
    return await asyncio.gather(*looks)


def _split_by_key(provider: Provider) -> Iterator[Provider]:
    """Yield the provider once for each of its keys; the name then shows which key."""
    if len(provider.api_keys) < 2:  # noqa: PLR2004 - a choice
        yield provider
        return
    for key in provider.api_keys:
        name = f"{provider.name} …{find_last4(key) or ''}"
        yield dataclasses.replace(provider, name=name, api_keys=(key,))


async def look_at(provider: Provider, upstream_models: Collection[str]) -> Finding:
    """Ask a provider by its only key for its list of models, and say what the answer means."""
    base_url = provider.base_url
    if not find_formats().upstreams[provider.dialect].models_path:
        return _find(provider, "no_list", "was not asked, as it has no list of models")
    try:
        answer = await _ask(provider, base_url)
    except _Failed as error:
        return _find(provider, "failed", str(error))
    if answer.is_settled:
        return _read_settled(provider, answer, upstream_models)
    for other_url in _list_other_urls(base_url):
        try:
            other = await _ask(provider, other_url)
        except _Failed:
            continue
        if other.is_settled:
            words = f'wrong path ({_cause(answer)}): set base_url = "{other_url}"'
            return _find(provider, "wrong_path", words)
    return _read_unsettled(provider, answer)


def _read_settled(provider: Provider, answer: _Listing, wanted: Collection[str]) -> Finding:
    listed = answer.list_models()
    if listed is None:
        problem = "refuses the key" if provider.api_keys else "wants a key, and api_key is not set"
        return _find(provider, "key_refused", f"answers, but {problem} ({_cause(answer)})")
    names, has_more = listed
    unknown = () if has_more else tuple(sorted(set(wanted) - names))
    count = f"{len(names)} model{'s' * (len(names) != 1)}"
    if not unknown:
        return _find(provider, "well", f"reachable, {count}")
    words = f"reachable, {count}; not among them: {', '.join(_suggest(unknown, names))}"
    return _find(provider, "unknown_models", words, unknown)


def _suggest(unknown: Collection[str], names: Collection[str]) -> Iterator[str]:
    """Yield each model that is not in the list, with the one that may be meant."""
    for name in unknown:
        close = difflib.get_close_matches(name, names, n=1)
        yield f"{name} (did you mean {close[0]}?)" if close else name


def _read_unsettled(provider: Provider, answer: _Listing) -> Finding:
    if answer.status == _LIMITED:
        return _find(provider, "limited", f"reachable, but limits our rate ({_cause(answer)})")
    if answer.status in _NOT_FOUND | {_OK}:
        if trim(answer.body).startswith(b"<"):
            words = f"wrong path: a web page ({_cause(answer)}); base_url usually ends in /v1"
            return _find(provider, "wrong_path", words)
        words = f"reachable, but has no list of models ({_cause(answer)}): they cannot be checked"
        return _find(provider, "no_list", words)
    return _find(provider, "failed", f"answers with {_cause(answer)}")


class _Failed(Exception):
    """The provider gave no complete answer."""


async def _ask(provider: Provider, base_url: str) -> _Listing:
    """Get the list of models below a base address. Raises _Failed."""
    url = URL(base_url)
    proxy = URL(provider.proxy) if provider.proxy else None
    seconds = min(provider.connect_timeout, LOOK_SECONDS)
    pool = Pool(Dialer(url, seconds, proxy=proxy, authorities=provider.authorities))
    body = CollectedBody()
    try:
        async with limit_seconds(LOOK_SECONDS):
            connection = await pool.connect()
            try:
                response = connection.start(_write_request(provider, url), lambda _: body)
                head = await response.read_head()
                await response.read_body()
            finally:
                connection.close()
    except TimeoutError as error:
        raise _Failed(f"no answer within {LOOK_SECONDS:.0f} seconds") from error
    except Broken as error:
        raise _Failed(f"its answer broke off: {error}") from error
    except (UpstreamError, OutOfResources) as error:
        kind, colon, reason = error.cause.partition(":")
        raise _Failed(f"{_KINDS.get(kind, kind)}{colon}{reason}") from error
    finally:
        pool.close()
    return _Listing(head.status, body.take())


def _write_request(provider: Provider, url: URL) -> bytes:
    upstream = find_formats().upstreams[provider.dialect]
    headers = list_headers(provider, url, upstream.auth_headers("".join(provider.api_keys)), {})
    target = f"{url.raw_path.rstrip('/')}{upstream.models_path}"
    lines = [f"GET {target} HTTP/1.1", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


def _list_other_urls(base_url: str) -> list[str]:
    """Return the addresses that may have been meant: with /v1 added, or with one of two removed."""
    if base_url.endswith("/v1"):
        return [base_url.removesuffix("/v1")]
    return [f"{base_url}/v1"]


def _cause(answer: _Listing) -> str:
    """Return the status, with the provider's code if it is a plain word."""
    if answer.status == _OK:
        return "status 200" if looks_like_json(answer.body) else "status 200, but no JSON"
    return map_status(answer.status, answer.body, None).cause


def _find(
    provider: Provider, verdict: Verdict, words: str, unknown: tuple[str, ...] = ()
) -> Finding:
    path = find_formats().upstreams[provider.dialect].models_path
    url = take_out(f"{provider.base_url}{path}", provider.api_keys)
    return Finding(provider.name, url, verdict, take_out(words, provider.api_keys), unknown)
