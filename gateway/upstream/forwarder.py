"""Requests to one provider over HTTP: their heads, its keys and connections, and the meaning of its failures.

Here every exception of a connection becomes an `UpstreamError`, and in `dial` every failure to connect. So no
`except` in other modules can blame the provider for what the caller did.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

from yarl import URL

from gateway.base.deadlines import limit_seconds
from gateway.base.errors import (
    GatewayError,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
    redact,
)
from gateway.config.records import Provider
from gateway.dialects.wire.base import Upstream
from gateway.dialects.wire.failures import map_status
from gateway.upstream.attempt import Attempt, Forwarder
from gateway.upstream.connection import Pool
from gateway.upstream.dial import Dialer
from gateway.upstream.http1 import Head
from gateway.upstream.keys import UNAUTHORIZED, KeyRing, ProviderKey
from gateway.upstream.response import Broken, Response

ERROR_BODY_SECONDS: Final = 5.0
"""How long to wait for the text of an error; only the status decides what happens next."""
_REQUEST_TIMEOUT: Final = 408
"""A status that servers send on an idle connection before they close it (RFC 9110 §15.5.9)."""


class HttpForwarder(Forwarder):
    """A provider reached over HTTP/1.1."""

    def __init__(self, provider: Provider, before: Sequence[ProviderKey] = ()) -> None:
        """`before` are the provider's keys by other settings: renewed ones are kept."""
        self.provider = provider
        self._url = URL(provider.base_url)
        proxy = URL(provider.proxy) if provider.proxy else None
        dialer = Dialer(
            self._url, provider.connect_timeout, proxy=proxy, authorities=provider.authorities
        )
        self._pool = Pool(dialer)
        self._heads: dict[tuple[str, str], bytes] = {}
        self._ring = KeyRing(provider.name, provider.api_keys, provider.sources, before)
        self.keys = self._ring.keys

    async def send(self, attempt: Attempt) -> None:
        keys = self.keys
        if len(keys) > 1:
            keys = self._ring.line_up(attempt.find_affinity())
        place, may_replace = 0, True
        while True:
            key = keys[place]
            sent = key.secret
            try:
                key.in_flight += 1
                try:
                    return await self._send(key, attempt)
                finally:
                    key.in_flight -= 1
            except GatewayError as error:
                # Another key is tried only after a refusal of the key itself: then no work was done.
                if attempt.answered or not (
                    self._ring.let_rest(key, sent, error) or key.is_lacking
                ):
                    raise
                if attempt.life.caller_gone:
                    raise
                if key is not keys[-1]:
                    place += 1
                # The last key rests, too, for later requests, if it cannot be renewed now.
                elif not may_replace or not await _replace_key(key, sent, error, attempt):
                    raise
                else:
                    may_replace = False

    async def _send(self, key: ProviderKey, attempt: Attempt) -> None:
        """Send the request by one key, again if the connection was stale."""
        request, body, fresh = self._write_request(key, attempt), attempt.body, False
        while True:
            connection = (None if fresh else self._pool.take()) or await self._pool.connect()
            response: Response | None = None
            try:
                response = attempt.start(connection, request)
                if not isinstance(body, bytes):
                    await connection.send(body.read_pieces())
                head = await response.read_head()
                if attempt.refusal is None:
                    return await response.read_body()
                # A provider that is about to close an idle connection says 408.
                if fresh or head.status != _REQUEST_TIMEOUT or not attempt.is_stale(connection):
                    attempt.life.note_declined()
                    raise await self._read_refusal(response, head, attempt)
            except Broken as error:
                assert response is not None
                if response.is_answered or not attempt.is_stale(connection):
                    failure = _break_off(error, response, is_answered=attempt.answered)
                    if failure.next_route:
                        attempt.life.note_declined()
                    raise failure from error
            finally:
                attempt.detach()
                connection.close()
            fresh = True  # at most one retry: each send may have done the work

    def redact(self, error: GatewayError) -> GatewayError:
        redact(error, self._ring.list_secrets())
        return error

    def close(self) -> None:
        self._pool.close()

    def _write_request(self, key: ProviderKey, attempt: Attempt) -> bytes:
        """Write the request; for a form only the head, as the body follows in pieces."""
        upstream, body, passed = attempt.exchange.upstream, attempt.body, attempt.headers
        path = attempt.path or upstream.path
        if not isinstance(body, bytes):
            passed = {**passed, "Content-Type": body.content_type}
        # Callers' headers differ from request to request, so heads with them are not kept.
        if passed:
            head = self._write_head(upstream, path, key, passed)
        elif (path, key.secret) in self._heads:
            head = self._heads[path, key.secret]
        else:
            head, kept = self._write_head(upstream, path, key, {}), set(self._ring.list_secrets())
            # Those with keys that have ended are dropped.
            self._heads = {one: self._heads[one] for one in self._heads if one[1] in kept}
            self._heads[path, key.secret] = head
        # In one piece, so that head and body leave in one write.
        return b"%b%d\r\n\r\n%b" % (head, len(body), body if isinstance(body, bytes) else b"")

    def _write_head(
        self, upstream: Upstream, path: str, key: ProviderKey, passed: Mapping[str, str]
    ) -> bytes:
        """Return the request's head up to the value of Content-Length. Later headers win."""
        if key.is_lacking:
            raise UpstreamUnavailable(
                "The upstream provider cannot be asked at the moment.",
                next_route=True,
                cause="not tried: its key is not known yet",
            )
        auth = upstream.auth_headers(key.secret)
        headers = list_headers(self.provider, self._url, auth, passed)
        target = self._url.raw_path.rstrip("/") + path
        lines = [f"POST {target} HTTP/1.1", *headers, "Content-Length: "]
        # aiohttp decodes callers' headers this way, so the provider gets the same bytes.
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")

    async def _read_refusal(self, response: Response, head: Head, attempt: Attempt) -> GatewayError:
        is_cut = False
        try:
            # The caller waits meanwhile, perhaps for the next route.
            async with limit_seconds(ERROR_BODY_SECONDS):
                await response.read_body()
        except (Broken, UpstreamError, TimeoutError):
            # A part of the error's text is better than none, and it is no reason to try no other route.
            is_cut = True
            if isinstance(attempt.life.ended_by, UpstreamTimeout):
                attempt.life.ended_by = None
        refusal = attempt.refusal
        assert refusal is not None
        # The header is used even if the body failed.
        wait = read_retry_after(head.get(b"retry-after"))
        return self.redact(map_status(head.status, refusal.take(), wait, is_cut=is_cut))


async def _replace_key(
    key: ProviderKey, refused: str, error: GatewayError, attempt: Attempt
) -> bool:
    """Return whether a refused or missing key has been replaced by now.

    Raises the error that ended the attempt meanwhile.
    """
    is_ended = isinstance(error, UpstreamError) and error.upstream_status == UNAUTHORIZED
    if not is_ended and not key.is_lacking:
        return False  # a rate limit: another key of the same account would be limited, too
    if key.secret != refused:
        return True
    if key.renewing is None:
        return False
    is_renewed = await key.renewing.replace(refused, lambda: attempt.life.ended_by is not None)
    attempt.life.check()
    return is_renewed


def _break_off(error: Broken, response: Response, *, is_answered: bool) -> UpstreamError:
    """Return the error of a connection that ended too early; `is_answered`: after the head of a reply."""
    return UpstreamError(
        f"The upstream provider's answer broke off: {error}.",
        blame="reply" if is_answered else "model",
        cause=f"broke off: {error}",
        # Once all is sent, the provider may have begun to work, so the request must not be sent again.
        next_route=not response.is_sent and not is_answered,
    )


_HEADERS: Final = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "gateway",
}


def read_retry_after(value: str) -> float | None:
    """Read the seconds of a Retry-After header, a number or a date (RFC 9110 §10.2.3); None if unusable."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        # The date may have passed on its way, or our clock may be ahead.
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def list_headers(
    provider: Provider, url: URL, auth: Mapping[str, str], passed: Mapping[str, str]
) -> list[str]:
    """Write the header lines of a request to a provider. Of names that differ only in case the last counts."""
    own = {"Host": url.host_port_subcomponent or "", **_HEADERS, **provider.headers, **auth}
    # Names ignore case (RFC 9110 §5.1), and a provider may take either of two.
    by_name = {name.lower(): (name, value) for name, value in (*own.items(), *passed.items())}
    return [f"{name}: {value}" for name, value in by_name.values()]
