"""Bodies: read as they arrive within limits, counted in memory, parsed. Accounts share memory and thread fairly.

All bodies of requests are counted, and the waiting parts of replies: a JSON reply until its caller has it, an
event until it is whole, and bytes that a caller does not read. A request beyond its account's share is refused.
A reply is paid for and never refused: reading from its provider stops until there is room. One reply per account
may always be read on, because several half-read replies would wait for each other.

Each JSON value takes a step in Python and 60 bytes of memory. So large JSON is read and written in a thread.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from aiohttp import hdrs, web
from multidict import MultiMapping

from gateway.api.aiohttp_insides import PacedConnection, has_queued_message, take_body
from gateway.api.front import KeyedCall
from gateway.base import errors
from gateway.base.deadlines import limit_seconds
from gateway.base.turns import Result, find_turns
from gateway.dialects.wire import bounds
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.records import CompletionRequest

LOOP_BYTES: Final = 1 << 19
"""The most bytes that are read or written on the loop, whatever they contain: they take 1 ms."""
LOOP_VALUES: Final = 3_000
"""The most JSON values that are read or written on the loop: up to 4 ms in the slowest pair of dialects."""
PARSED_FACTOR: Final = 2
"""How many times a large body's bytes are counted again once parsed: its objects are in memory, too."""
FRAMING_SECONDS: Final = 1.0
"""Seconds between two checks whether a chunked body has stopped because its chunks are malformed: aiohttp
does not tell the body, so the caller gets its 400 this late."""


async def read_body(http: web.Request, call: KeyedCall, max_bytes: int = sys.maxsize) -> bytes:
    """Read the whole body, of at most `max_body_mb` and `max_bytes`.

    Raises UnsupportedMediaType, BodyTooLarge, Overloaded, RateLimited, BodyTimeout or BadRequest.
    """
    most = min(call.gateway.config.server.max_body_mb << 20, max_bytes)
    headers = http.headers
    if hdrs.CONTENT_ENCODING in headers:
        check_encoding(headers)
    if not _is_json(headers.get(hdrs.CONTENT_TYPE, "")):
        raise errors.UnsupportedMediaType("Send the body with 'Content-Type: application/json'.")
    body = take_body(http)
    if body is not None:
        if len(body) > most:
            raise _too_large(most)
        count_body(call, len(body))
    else:
        began, pieces = time.monotonic(), list[bytes]()

        def keep(data: bytes) -> None:
            count_body(call, len(data))
            pieces.append(data)

        size = await read_pieces(http, call, most, keep)
        join = partial(b"".join, pieces)
        body = await run_large(call, join) if size > LOOP_BYTES else join()
        call.waited_seconds += time.monotonic() - began
    if len(body) > LOOP_BYTES:
        count_body(call, PARSED_FACTOR * len(body))
    return body


async def read_pieces(
    http: web.Request, call: KeyedCall, most: int, take: Callable[[bytes], Awaitable[None] | None]
) -> int:
    """Hand over a body of at most `most` bytes as it arrives; return its size.

    Reading waits while `take` works. Raises as `read_body`, and what `take` raises.
    """
    # Before `100 Continue`, so that a caller who waits for it never sends the body (RFC 9110 §10.1.1).
    if (http.content_length or 0) > most:
        raise _too_large(most)
    server = call.gateway.config.server
    # A body with a length has no chunks that could be malformed.
    read = partial(_read_chunks, http) if http.content_length is None else http.content.readany
    size = 0
    # Chunks behind a head wait for this call, so a request that was refused costs no parsing.
    resume_body(http)
    try:
        if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # Each piece renews the quiet time but not the total one, which ends bodies that drip.
        async with limit_seconds(server.body_idle_seconds, server.body_total_seconds) as limit:
            while data := await read():
                size += len(data)
                if size > most:
                    raise _too_large(most)
                if (taken := take(data)) is not None:
                    await taken
                limit.renew()
    except TimeoutError as error:
        raise errors.BodyTimeout("The request body did not arrive in time.") from error
    # aiohttp raises RuntimeError where the connection was lost before the read.
    except (web.RequestPayloadError, ConnectionError, RuntimeError) as error:
        raise errors.BadRequest("The request body broke off.") from error
    return size


async def _read_chunks(http: web.Request) -> bytes:
    """Read the next bytes of a body in chunks, b"" at the end. Raises BadRequest for malformed or tiny ones.

    Each tiny chunk takes as long to parse as a large one. At malformed chunks aiohttp's parser stops without
    telling the body: the error is queued as the connection's next request. No other request can be queued
    while a body is not whole.
    """
    if has_tiny_chunks(http):
        raise errors.BadRequest("The request body comes in too many tiny chunks; send larger ones.")
    while True:
        try:
            async with asyncio.timeout(FRAMING_SECONDS):
                return await http.content.readany()
        except TimeoutError:
            if has_queued_message(http):
                message = "The chunked encoding of the request body is malformed."
                raise errors.BadRequest(message) from None


def resume_body(http: web.BaseRequest) -> None:
    """Let the body of a request be parsed: the request was not refused."""
    if isinstance(http.protocol, PacedConnection):
        http.protocol.queue_parsing()


def has_tiny_chunks(http: web.BaseRequest) -> bool:
    """Return whether a body comes in more and smaller chunks than any client sends."""
    return isinstance(http.protocol, PacedConnection) and http.protocol.has_tiny_chunks()


def check_encoding(headers: MultiMapping[str]) -> None:
    """Refuse a body that is compressed. Raises UnsupportedMediaType."""
    encodings = headers.getall(hdrs.CONTENT_ENCODING, ())
    if any(one.partition(";")[0].strip().lower() not in ("", "identity") for one in encodings):
        message = "Content-Encoding is not supported here; send the body as it is."
        raise errors.UnsupportedMediaType(message)


@lru_cache(maxsize=64)
def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    # The suffix marks JSON, too (RFC 6839).
    return kind == "application/json" or kind.endswith("+json")


def _too_large(most: int) -> errors.BodyTooLarge:
    return errors.BodyTooLarge(f"The request body is larger than {most >> 20} MiB.")


def is_large(size: int, bound_values: Callable[[], int] | None = None) -> bool:
    """Return whether JSON of this size is processed in the thread.

    `bound_values`, if the JSON is parsed, is asked for an upper bound of its values.
    """
    if size > LOOP_BYTES or bound_values is None:
        return size > LOOP_BYTES
    return size > LOOP_VALUES and bound_values() > LOOP_VALUES  # each value takes a byte at least


async def run_large(call: KeyedCall, function: Callable[[], Result]) -> Result:
    """Call a function in the thread for large JSON, when the account's turn comes."""
    return await call.gateway.large_bodies.run(function, call.key.account.id)


async def parse(call: KeyedCall, dialect: Caller, body: bytes) -> CompletionRequest:
    """Parse a request; a large one in the thread, to delay no other. Raises BodyTooLarge, BadRequest."""
    size = len(body)
    if size <= LOOP_VALUES:
        request = dialect.parse_request(body)
    # Commas inside strings count, too: telling them apart would take as long as parsing.
    elif is_large(size, partial(bounds.bound_elements, body)):
        request = await run_large(call, partial(parse_large, dialect, body))
    else:
        await find_turns().wait(call.key.account.id)
        request = dialect.parse_request(body)
    request.size = size
    return request


def parse_large(dialect: Caller, body: bytes) -> CompletionRequest:
    """Parse a request whose values and escapes are counted first. Raises BodyTooLarge, BadRequest."""
    elements = bounds.count_elements(body, bounds.MAX_ELEMENTS)
    if elements > bounds.MAX_ELEMENTS:
        message = f"The request body has more than {bounds.MAX_ELEMENTS:,} JSON values."
        raise errors.BodyTooLarge(message)
    if bounds.has_more_escapes(body, bounds.MAX_ESCAPES):
        raise errors.BodyTooLarge(
            f"The request body has more than {bounds.MAX_ESCAPES:,} backslashes. Send text as"
            " UTF-8, without escapes such as \\u00e9."
        )
    if bounds.has_more_wide(body, bounds.MAX_WIDE_BYTES):
        raise errors.BodyTooLarge(
            f"The request body has more than {bounds.MAX_WIDE_BYTES >> 20} MiB of text that is not"
            " ASCII. Send less text at once; files in Base64 do not count."
        )
    with bounds.limit_elements(bounds.MAX_ELEMENTS - elements, bounds.refuse_elements):
        return replace(dialect.parse_request(body), elements=elements, is_large=True)


ACCOUNT_SHARE: Final = 2
"""One account may use the budget of memory divided by this. Once the budget is full, an account that uses less
than an equal part is still served: many such accounts together exceed the budget, each by less than the last."""
SMALL_BYTES: Final = 64 << 10
"""Replies up to this size are not counted: a transport takes as many bytes before it asks to wait."""


@dataclass(slots=True, eq=False)
class Share:
    """The bytes that the requests and replies of one account take in memory."""

    buffered_bytes: int = 0
    ahead: KeyedCall | None = None
    """The request whose reply is read to its end although the share is full."""


def count_body(call: KeyedCall, size: int) -> None:
    """Reserve room for received bytes until their request ends.

    Raises Overloaded when memory is full, and RateLimited when the account has used its share. The only
    request in flight always has room, or a body within its limit could never be served.
    """
    gateway, share = call.gateway, call.gateway.shares.get(call.key.account.id)
    own = size if share is None else share.buffered_bytes + size
    budget = gateway.config.server.max_bodies_mb << 20
    used = gateway.buffered_bytes + size
    if own > budget // ACCOUNT_SHARE or used > budget:
        accounts, mine = {*gateway.shares, call.key.account.id}, call.buffered_bytes + size
        check_share(budget, used, own, mine, accounts=len(accounts), what="memory")
    count_bytes(call, size)


def check_share(budget: int, used: int, own: int, mine: int, *, accounts: int, what: str) -> None:
    """Refuse a request that would take more of a budget than its account may use.

    With this request, `accounts` accounts would take `used` bytes, this one `own`, the request `mine`.
    Raises Overloaded, RateLimited.
    """
    if own > budget // ACCOUNT_SHARE and own > mine:
        raise errors.RateLimited(
            f"The requests in flight of your account exceed its share of {what}. Try again shortly."
        )
    # Only those that use more than an equal part are refused: a crowd must not starve a small account.
    if used > budget and used > mine and own > _find_limit(budget, used, accounts):
        raise errors.Overloaded(
            f"The requests in flight exceed the gateway's {what} for bodies. Try again shortly."
        )


def count_reply(call: KeyedCall, size: int) -> bool:
    """Set the bytes counted for the reply to `size`; return `may_read`."""
    count_bytes(call, size - call.reply_bytes)
    call.reply_bytes = size
    return may_read(call)


def may_read(call: KeyedCall) -> bool:
    """Return whether more of the reply may be read: its account has room, or it is the reply `ahead`."""
    gateway, share = call.gateway, call.gateway.shares.get(call.key.account.id)
    budget = gateway.config.server.max_bodies_mb << 20
    limit = _find_limit(budget, gateway.buffered_bytes, len(gateway.shares))
    if share is None or share.buffered_bytes <= limit:
        return True
    if share.ahead is None:
        share.ahead = call
    return share.ahead is call


def count_bytes(call: KeyedCall, size: int) -> None:
    """Add bytes of a request or its reply to those in memory; a negative size gives room back."""
    gateway, account = call.gateway, call.key.account.id
    share = gateway.shares.get(account)
    if share is None:
        share = gateway.shares[account] = Share()
    gateway.buffered_bytes += size
    share.buffered_bytes += size
    call.buffered_bytes += size
    if not call.buffered_bytes:
        call.reply_bytes = 0
    if size < 0 and share.ahead is call:
        share.ahead = None  # it becomes `ahead` again if it still needs to
    # Accounts without buffered bytes must not lower the equal part of the others.
    if not share.buffered_bytes:
        del gateway.shares[account]


def _find_limit(budget: int, used: int, accounts: int) -> int:
    """Return the bytes of a budget that each account may use if they use so many together."""
    return budget // (ACCOUNT_SHARE if used <= budget else max(accounts, ACCOUNT_SHARE))
