"""The bytes of requests and replies in memory, which accounts share fairly.

All bodies of requests are counted, and the waiting parts of replies: a JSON
reply until its caller has it, an event until it is whole, and bytes that a caller does not read. A request
beyond its account's share is refused. A reply is paid for and never refused: reading from its provider stops
until there is room. One reply per account may always be read on, because several half-read replies would
wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.api.call import Call
from gateway.base import errors

ACCOUNT_SHARE: Final = 2
"""One account may use the budget of memory divided by this. Once the budget is full, an account that uses less
than an equal part is still served: many such accounts together exceed the budget, each by less than the last."""
SMALL_BYTES: Final = 64 << 10
"""Replies up to this size are not counted: a transport takes as many bytes before it asks to wait."""


@dataclass(slots=True, eq=False)
class Share:
    """The bytes that the requests and replies of one account take in memory."""

    buffered_bytes: int = 0
    ahead: Call | None = None
    """The request whose reply is read to its end although the share is full."""


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
    count_bytes(call, size)


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
    count_bytes(call, size - call.reply_bytes)
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


def count_bytes(call: Call, size: int) -> None:
    """Add bytes of a request or its reply to those in memory; a negative size gives room back."""
    assert call.key is not None
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
