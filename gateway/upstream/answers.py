"""A provider's 200: its body on its connection, and what breaks it off."""

from __future__ import annotations

from typing import Protocol

from gateway.errors import Blame, UpstreamError
from gateway.upstream.bodies import CheckedBody, Receiver, is_reply_type
from gateway.upstream.connection import Broken, Connection
from gateway.upstream.http1 import Head
from gateway.upstream.keyring import ProviderKey


class Answer(Protocol):
    """A 200 from a provider whose body has not been read yet."""

    async def deliver(self, receiver: Receiver) -> None:
        """Hand over the body until its clean end or until `stop`. Raises UpstreamError."""

    def stop(self) -> None:
        """End `deliver`: the receiver has all it needs."""

    def close(self) -> None:
        """Return the connection to its pool, or cut it where the body was not read to its end."""


def accept(connection: Connection, head: Head, key: ProviderKey) -> Answer:
    """Return the answer of a head with status 200. Raises UpstreamError for one in a strange encoding."""
    if head.headers.get(b"content-encoding", b"") not in {b"", b"identity"}:
        connection.close()
        raise UpstreamError(
            "The upstream provider sent an encoding nobody asked for.",
            cause="200, but encoded",
        )
    is_typed = is_reply_type(head.headers.get(b"content-type", b""))
    return _HttpAnswer(connection, key) if is_typed else _UntypedAnswer(connection, key)


class _HttpAnswer:
    """An `Answer` on its connection; its end is that of a request in flight by its key."""

    __slots__ = ("_connection", "_key", "stop")

    def __init__(self, connection: Connection, key: ProviderKey) -> None:
        self._connection = connection
        self._key: ProviderKey | None = key
        self.stop = connection.stop

    def close(self) -> None:
        if self._key is not None:
            self._key.in_flight -= 1
            self._key = None
        self._connection.close()

    async def deliver(self, receiver: Receiver) -> None:
        try:
            await self._connection.deliver(receiver)
        except Broken as error:
            raise break_off(error, "reply") from error


class _UntypedAnswer(_HttpAnswer):
    """An `Answer` whose Content-Type says nothing: some local servers send another, or none."""

    __slots__ = ()

    async def deliver(self, receiver: Receiver) -> None:
        checked = CheckedBody(receiver)
        await super().deliver(checked)
        checked.end()


def break_off(error: Broken, blame: Blame) -> UpstreamError:
    return UpstreamError(
        f"The upstream provider's answer broke off: {error}.",
        blame=blame,
        cause=f"broke off: {error}",
    )
