"""One try at one route: its deadlines, the ways to end early, and what takes the body of an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.base.deadlines import Clock, Life
from gateway.base.errors import GatewayError, UpstreamError, UpstreamTimeout
from gateway.config.records import Provider
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.records import Body
from gateway.upstream.connection import MOST_LINES, MOST_TRANSLATED_LINES, Connection
from gateway.upstream.http1 import Head
from gateway.upstream.keys import ProviderKey
from gateway.upstream.receivers import (
    CheckedBody,
    CollectedBody,
    Receiver,
    is_reply_type,
    read_encoding,
)
from gateway.upstream.response import Response

MAX_ERROR_BYTES: Final = 64 << 10
"""Bytes of an error's body that are read: errors are objects of some KiB."""
STALE_SECONDS: Final = 2.0
"""The time in which a connection closed while idle shows itself. Later, work may have been done."""


OpenReply = Callable[[str], Receiver]
"""Returns what takes the body of a 200. It is given the type of audio, "" for JSON and events."""


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One try at one route: what is sent, its deadlines, and what takes the body of an answer.

    The ticker looks at the deadlines; times are its clock's. The dialler limits the time to connect. From
    then on the first byte, silence within the reply and the whole try have a limit each
    (`first_byte_timeout`, `idle_timeout`, `total_timeout`).
    """

    provider: Provider
    clock: Clock
    exchange: Exchange
    body: Body
    open_reply: OpenReply
    """Called when the head of a 200 was read."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The caller's headers that go on to the provider."""
    life: Life = field(default_factory=Life)
    path: str = ""
    """The path of the request if it depends on the model; else the upstream's path is used."""
    find_affinity: Callable[[], str] = str
    """Asked where the provider has several keys: requests of the same affinity go out by the same one, if it
    can serve."""
    response: Response | None = None
    """The response under way; None while there is none, or after a stale connection."""
    refusal: CollectedBody | None = None
    """The text of an error, once its head was read."""
    answered: bool = False
    """A reply was opened: no other connection, key or route is tried."""
    _has_begun: bool = False
    """The body has begun, so `idle_timeout` limits the silences."""
    _body_reads: int = 0
    """The reads of the response at the last look."""
    _total_since: float = field(init=False)
    """The time from which `total_timeout` runs. It includes the time to connect."""
    _sent: float = 0.0
    _quiet_since: float = 0.0

    def __post_init__(self) -> None:
        self._total_since = self.clock.next_seconds

    def start(self, connection: Connection, request: bytes) -> Response:
        """Send the request, or its head, by a connection. Raises what ended the request."""
        self.life.check()  # a request that ended while its connection was made must not be sent
        self.life.note_sent()
        passes = self.exchange.translation is None
        most_lines = MOST_LINES if passes else MOST_TRANSLATED_LINES
        self.response = response = connection.start(request, self.open, most_lines)
        self.life.cut, self.refusal, self._body_reads = response.fail, None, 0
        self._quiet_since = self.clock.next_seconds
        self._sent = time.monotonic()
        return response

    def open(self, head: Head) -> Receiver:
        """Return what takes the body of an answer.

        Raises UpstreamError for an encoded body, or if audio was requested and another type came. JSON in
        place of audio is accepted, as it may tell an error or a usage.
        """
        if head.status not in _OK:
            self.refusal = CollectedBody(MAX_ERROR_BYTES)
            return self.refusal
        # The request asked for `identity`; an encoded body can be neither metered nor translated.
        encoding = head.headers.get(b"content-encoding", b"")
        if encoding and read_encoding(encoding) is None:
            name = _ENCODING.match(encoding)
            raise UpstreamError(
                "The upstream provider sent an encoding nobody asked for.",
                cause=f"200, but encoded: {name[0].decode() if name else 'no name'}",
            )
        content_type, audio = head.headers.get(b"content-type", b""), ""
        is_typed = is_reply_type(content_type)
        if self.exchange.upstream.makes_audio:
            if _AUDIO.fullmatch(content_type):
                audio = content_type.decode()
            elif not is_typed:
                message = "The upstream provider's reply is no audio."
                raise UpstreamError(message, cause="200, but no audio")
        self.answered = True
        reply = self.open_reply(audio)
        # Some local servers send a wrong type or none.
        return reply if is_typed or audio else CheckedBody(reply)

    def is_stale(self, connection: Connection) -> bool:
        """Return whether a failure may be due to a connection that the provider closed while it was idle."""
        # In real time: a request that was sent before a pause may have been served meanwhile.
        return connection.served > 0 and time.monotonic() - self._sent < STALE_SECONDS

    def detach(self) -> None:
        """Leave the connection alone: it may serve another request from now on."""
        self.response = self.life.cut = None

    def tick(self) -> None:
        """Fail the attempt if a deadline has passed."""
        response = self.response
        if response is None:  # the dialler has a limit of its own
            return
        clock = self.clock
        if response.body_reads != self._body_reads or not response.awaits_provider:
            self._body_reads = response.body_reads
            self._has_begun = True
            # Reading waits for a slow caller or for its turn, so the silence is not the provider's.
            self._quiet_since = clock.seconds
        limit = "idle_timeout" if self._has_begun else "first_byte_timeout"
        if clock.seconds - self._total_since >= self.provider.total_timeout:
            limit = "total_timeout"
        elif clock.lasted(self._quiet_since) < getattr(self.provider, limit):
            return
        message = "The upstream provider did not answer in time."
        self.life.stop(UpstreamTimeout(message, cause=f"timeout: {limit}"))


_OK: Final = frozenset({200, 201, 203})
"""Statuses with a reply. Frameworks such as NestJS answer every POST with 201, and a proxy that edited the
reply may say 203 (RFC 9110 §15.3); SDKs take both."""
_AUDIO: Final = re.compile(
    rb"(audio/[!-~]+|application/octet-stream|text/event-stream)(;[ -~]*)?", re.IGNORECASE
)
"""The content types of audio, and of the events that `stream_format` requests. None is a type that
browsers display, because the console has the same origin."""
_ENCODING: Final = re.compile(rb"[a-z0-9, -]{1,40}")


class Forwarder(Protocol):
    """The way to one provider."""

    provider: Provider
    keys: Sequence[ProviderKey] = ()
    """The keys that requests are sent by; none if there is no choice."""

    async def send(self, attempt: Attempt) -> None:
        """Send the request; return when the body of its 200 was taken.

        Raises UpstreamError, BadRequest when the provider found fault with the request, what the
        receiver raised, or what ended the request.
        """

    def redact(self, error: GatewayError) -> GatewayError:
        """Take the provider's key out of an error, whatever the provider echoed."""
        return error

    def close(self) -> None:
        """Keep no connection any more; requests in flight go on to their end."""
        return
