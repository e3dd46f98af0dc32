"""Bodies of requests and replies: read, counted in memory by account, parsed where it delays nobody.

All bodies of requests are counted, and the waiting parts of replies: a JSON reply until its caller has
it, an event until it is whole, and bytes that a caller does not read. A request beyond its account's
share is refused. A reply is paid for and never refused: reading from its provider stops until there is
room. One reply per account may always be read on, because several half-read replies would wait for each
other.

JSON is parsed and translated at once, in a turn of the event loop that has time, or in a thread. Each
JSON value takes a step in Python and 60 bytes of memory. On the loop, a body of many values would stop
all streams meanwhile. The time is estimated from the number of values and the pair of dialects
(`Exchange.request_rate`, `Exchange.reply_rate`).
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from aiohttp import hdrs, web

from gateway import errors
from gateway.api.aiohttp_insides import PacedConnection, has_queued_message, take_body
from gateway.api.state import Call, Share
from gateway.deadlines import limit_seconds
from gateway.dialects.wire.jsonbytes import bound_elements
from gateway.tasks import Place

FRAMING_SECONDS: Final = 1.0
"""How often a chunked body that does not arrive is checked for malformed chunks."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def defer_continue(http: web.Request) -> None:
    """Send no `100 Continue` yet (aiohttp's hook): `read_body` does once the key is known."""


async def read_body(http: web.Request, call: Call, max_bytes: int = sys.maxsize) -> bytes:
    """Read the whole body, of at most `max_body_mb` and `max_bytes`.

    Raises UnsupportedMediaType, BodyTooLarge, Overloaded, RateLimited, BodyTimeout or BadRequest.
    """
    most = min(call.gateway.config.server.max_body_mb << 20, max_bytes)
    check_encoding(http.headers)
    _check_type(http.headers)
    body = take_body(http)
    if body is not None:
        if len(body) > most:
            raise _too_large(most)
        count_body(call, len(body))
    else:
        began = time.monotonic()
        body = await _read_slowly(http, call, most)
        call.waited_seconds += time.monotonic() - began
    if len(body) > LOOP_BYTES:
        count_body(call, PARSED_FACTOR * len(body))
    return body


async def _read_slowly(http: web.Request, call: Call, most: int) -> bytes:
    pieces: list[bytes] = []

    def keep(data: bytes) -> None:
        count_body(call, len(data))
        pieces.append(data)

    size = await read_pieces(http, call, most, keep)
    place = Place.THREAD if size > LOOP_BYTES else Place.NOW  # others run meanwhile
    return await run_at(call, place, partial(b"".join, pieces))


async def read_pieces(
    http: web.Request, call: Call, most: int, take: Callable[[bytes], Awaitable[None] | None]
) -> int:
    """Hand over a body of at most `most` bytes as it arrives; return its size.

    Reading waits while `take` works. Raises as `read_body`, and what `take` raises.
    """
    # Before `100 Continue`, so that a caller who waits
    # for it never sends the body (RFC 9110 §10.1.1).
    if (http.content_length or 0) > most:
        raise _too_large(most)
    server = call.gateway.config.server
    size = 0
    # Chunks behind a head wait for this call, so a request that was refused costs no parsing.
    want_body(http)
    try:
        if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await http.writer.write(_CONTINUE)
        # Each piece renews the quiet time but not the total one, which ends bodies that drip.
        async with limit_seconds(server.body_idle_seconds, server.body_total_seconds) as limit:
            while data := await _read_piece(http):
                size += len(data)
                if size > most:
                    raise _too_large(most)
                if (taken := take(data)) is not None:
                    await taken
                check_chunks(http)
                limit.renew()
    except TimeoutError as error:
        raise errors.BodyTimeout("The request body did not arrive in time.") from error
    # aiohttp raises RuntimeError where the connection was lost before the read.
    except (web.RequestPayloadError, ConnectionError, RuntimeError) as error:
        raise errors.BadRequest("The request body broke off.") from error
    return size


async def _read_piece(http: web.Request) -> bytes:
    """Read the next bytes, b"" at the end. Raises BadRequest for malformed chunks.

    At malformed chunks aiohttp's parser stops without telling the body: the error is queued as the
    connection's next request. No other request can be queued while a body is not whole.
    """
    # A body with a length has no chunks that could be malformed.
    if http.content_length is not None:
        return await http.content.readany()
    while True:
        try:
            async with asyncio.timeout(FRAMING_SECONDS):
                return await http.content.readany()
        except TimeoutError:
            if has_queued_message(http):
                raise errors.BadRequest(
                    "The chunked encoding of the request body is malformed."
                ) from None


def want_body(http: web.BaseRequest) -> None:
    """Let the body of a request come, which is not refused."""
    if isinstance(http.protocol, PacedConnection):
        http.protocol.go_on()


def has_tiny_chunks(http: web.BaseRequest) -> bool:
    """Return whether a body comes in more and smaller chunks than any client sends."""
    return isinstance(http.protocol, PacedConnection) and http.protocol.has_tiny_chunks()


def check_chunks(http: web.Request) -> None:
    """Raise BadRequest for a body in tiny chunks: each takes as long to parse as a large one."""
    if has_tiny_chunks(http):
        raise errors.BadRequest("The request body comes in too many tiny chunks; send larger ones.")


def check_encoding(headers: Mapping[str, str]) -> None:
    """Refuse a body that is compressed. Raises UnsupportedMediaType."""
    if _read_token(headers.get(hdrs.CONTENT_ENCODING, "")) not in {"", "identity"}:
        raise errors.UnsupportedMediaType(
            "Content-Encoding is not supported here; send the body as it is."
        )


def _check_type(headers: Mapping[str, str]) -> None:
    kind = _read_token(headers.get(hdrs.CONTENT_TYPE, ""))
    # The suffix marks JSON, too (RFC 6839).
    if kind != "application/json" and not kind.endswith("+json"):
        raise errors.UnsupportedMediaType("Send the body with 'Content-Type: application/json'.")


@functools.lru_cache(maxsize=64)
def _read_token(header: str) -> str:
    """Return a header's value in lower case, without its parameters."""
    return header.partition(";")[0].strip().lower()


def _too_large(most: int) -> errors.BodyTooLarge:
    return errors.BodyTooLarge(f"The request body is larger than {most >> 20} MiB.")


ACCOUNT_SHARE: Final = 2
"""One account may use the budget divided by this. Once the budget is full, an account that uses less than
an equal part is still served: many such accounts together exceed the budget, each by less than the last."""
PARSED_FACTOR: Final = 2
"""How many times a large body's bytes are counted again once parsed: its objects are in memory, too."""
SMALL_BYTES: Final = 64 << 10
"""Replies up to this size are not counted: a transport takes as many bytes before it asks to wait."""


def count_body(call: Call, size: int) -> None:
    """Reserve room for received bytes until their request ends.

    Raises Overloaded when memory is full, and RateLimited when the account has used its share. The only
    request in flight always has room, or a body within its limit could never be served.
    """
    assert call.key is not None
    gateway = call.gateway
    share = gateway.shares.get(call.key.account.id)
    own = size if share is None else share.buffered_bytes + size
    budget = gateway.config.server.max_bodies_mb << 20
    used = gateway.buffered_bytes + size
    if own > budget // ACCOUNT_SHARE or used > budget:
        accounts = {*gateway.shares, call.key.account.id}
        check_share(
            budget, used, own, call.buffered_bytes + size, accounts=len(accounts), what="memory"
        )
    _count(call, size)


def check_share(budget: int, used: int, own: int, mine: int, *, accounts: int, what: str) -> None:
    """Refuse a request that would take more of a budget than its account may use.

    `used` bytes would be taken by so many accounts together, `own` by this one, `mine` by the request.
    Raises Overloaded, RateLimited.
    """
    if own > budget // ACCOUNT_SHARE and own > mine:
        raise errors.RateLimited(
            f"The requests in flight of your account exceed its share of {what}. Try again shortly."
        )
    # Only accounts that use more than an equal part are refused, so a crowd of large accounts cannot
    # starve a small one.
    if used > budget and used > mine and own > _find_limit(budget, used, accounts):
        raise errors.Overloaded(
            f"The requests in flight exceed the gateway's {what} for bodies. Try again shortly."
        )


def count_reply(call: Call, size: int) -> bool:
    """Set the bytes counted for the reply to `size`; return `may_read`."""
    _count(call, size - call.reply_bytes)
    call.reply_bytes = size
    return may_read(call)


def may_read(call: Call) -> bool:
    """Return whether more of the reply may be read: its account has room, or it is the reply `ahead`."""
    assert call.key is not None
    gateway, share = call.gateway, call.gateway.shares.get(call.key.account.id)
    budget = gateway.config.server.max_bodies_mb << 20
    limit = _find_limit(budget, gateway.buffered_bytes, len(gateway.shares))
    if share is None or share.buffered_bytes <= limit:
        return True
    if share.ahead is None:
        share.ahead = call
    return share.ahead is call


def release(call: Call) -> None:
    """Give back the room of a request and its reply."""
    if call.buffered_bytes:
        _count(call, -call.buffered_bytes)
        call.reply_bytes = 0


def _count(call: Call, size: int) -> None:
    assert call.key is not None
    gateway, account = call.gateway, call.key.account.id
    share = gateway.shares.get(account)
    if share is None:
        share = gateway.shares[account] = Share()
    gateway.buffered_bytes += size
    share.buffered_bytes += size
    call.buffered_bytes += size
    if size < 0 and share.ahead is call:
        share.ahead = None  # it becomes `ahead` again if it still needs to
    # Accounts without buffered bytes must not lower the equal part of the others.
    if not share.buffered_bytes:
        del gateway.shares[account]


def _find_limit(budget: int, used: int, accounts: int) -> int:
    """Return the bytes of a budget that each account may use if they use so many together."""
    return budget // (ACCOUNT_SHARE if used <= budget else max(accounts, ACCOUNT_SHARE))


LOOP_MS: Final = 3.0
"""The longest work on the event loop; longer work is done in a thread."""
SHORT_MS: Final = 0.5
"""Work up to this long starts at once, without waiting for a turn: the rest of the request takes as
long."""
LOOP_BYTES: Final = 1 << 19
"""The most bytes that are read or written on the loop, whatever they contain: they take 1 ms."""
PARSE_RATE: Final = 4_000
"""Values parsed and validated in a millisecond in the slowest dialect, Responses."""
Result = TypeVar("Result")


def count_values(data: bytes) -> int:
    """Return an upper bound of the values in a JSON text, for `place_elements`.

    Commas inside strings count, too: telling them apart would take as long as parsing. A large text goes
    to the thread anyway, so its values are not counted.
    """
    return 0 if len(data) > LOOP_BYTES else bound_elements(data)


def place_elements(size: int, elements: int, rate: int) -> Place:
    """Choose where to work on JSON of this size and number of values; `rate` values take a millisecond."""
    if size > LOOP_BYTES or elements > LOOP_MS * rate:
        return Place.THREAD
    return Place.TURN if elements > SHORT_MS * rate else Place.NOW


async def run_at(call: Call, place: Place, function: Callable[[], Result]) -> Result:
    """Call a function at its place. The thread's time is shared fairly among accounts."""
    owner = None if call.key is None else call.key.account.id
    return await call.gateway.large_bodies.run(function, place, owner)
