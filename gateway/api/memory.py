"""The memory that requests and replies take, counted by account: nobody fills it for the others.

Counted are the bodies of requests, and of replies what waits: a JSON reply until its caller has it, an
event until it is whole, and bytes that a caller does not read.

A request beyond its account's share is refused. A reply is paid for, so it is never refused: its
provider is not read any further until there is room. Only one reply of an account is read on all the
same, as several that are half read would wait for each other.
"""

from __future__ import annotations

from typing import Final

from gateway.api.state import Call, Share
from gateway.errors import Overloaded, RateLimited

ACCOUNT_SHARE: Final = 2
"""One account may hold the budget divided by this. Once it is full, nobody is refused who holds less
than an equal part: so many accounts that work together go beyond it, each by less than the last."""
PARSED_FACTOR: Final = 2
"""Times the bytes of a large body that are counted: it is also in memory as objects."""
SMALL_BYTES: Final = 64 << 10
"""Bytes of a reply that are not counted: a transport takes as many before it asks to wait."""


def hold_body(call: Call, size: int) -> None:
    """Reserve room for bytes of a request that have arrived, until it ends.

    Raises Overloaded when there is none, and RateLimited when the account has its share. A request
    that is alone always has room: else a body within its limit could never be served.
    """
    assert call.key is not None
    gateway = call.gateway
    share = gateway.shares.get(call.key.account.id)
    own = size if share is None else share.held_bytes + size
    budget = gateway.config.server.max_bodies_mb << 20
    if own > budget // ACCOUNT_SHARE and own > call.held_bytes + size:
        raise RateLimited("Your account's requests and replies take its memory. Try again shortly.")
    is_full = gateway.held_bytes + size > budget and gateway.held_bytes > call.held_bytes
    if is_full and own > _find_limit(call, size):
        raise Overloaded("The gateway holds as many bodies as it may. Try again shortly.")
    _count(call, size)


def hold_reply(call: Call, size: int) -> bool:
    """Count `size` bytes for the reply in place of those before; return `may_read`."""
    _count(call, size - call.reply_bytes)
    call.reply_bytes = size
    return may_read(call)


def may_read(call: Call) -> bool:
    """Return whether more of the request's reply may be read: its account has room, or it goes ahead."""
    assert call.key is not None
    share = call.gateway.shares.get(call.key.account.id)
    if share is None or share.held_bytes <= _find_limit(call):
        return True
    if share.ahead is None:
        share.ahead = call
    return share.ahead is call


def release(call: Call) -> None:
    """Give back all that a request and its reply hold."""
    if call.held_bytes:
        _count(call, -call.held_bytes)
        call.reply_bytes = 0


def _count(call: Call, size: int) -> None:
    assert call.key is not None
    gateway, account = call.gateway, call.key.account.id
    share = gateway.shares.get(account)
    if share is None:
        share = gateway.shares[account] = Share()
    gateway.held_bytes += size
    share.held_bytes += size
    call.held_bytes += size
    if size < 0 and share.ahead is call:
        share.ahead = None  # it asks again if it still needs to
    if not share.held_bytes:
        del gateway.shares[account]


def _find_limit(call: Call, more: int = 0) -> int:
    """Return the bytes that an account may hold if all together hold `more` than now."""
    assert call.key is not None
    gateway = call.gateway
    budget = gateway.config.server.max_bodies_mb << 20
    if gateway.held_bytes + more <= budget:
        return budget // ACCOUNT_SHARE
    accounts = {*gateway.shares, call.key.account.id}
    return budget // max(len(accounts), ACCOUNT_SHARE)
