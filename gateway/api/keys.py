"""The layer of routes that need a key: key and account, rates, balance."""

from __future__ import annotations

import contextlib
import time
from typing import Final, assert_never, cast

from aiohttp import hdrs, web

from gateway.api.aiohttp_insides import PacedConnection
from gateway.api.bodies import count_bytes
from gateway.api.front import Call, Handler, KeyedCall, KeyHandler
from gateway.api.state import Gateway
from gateway.base import ids
from gateway.base.deadlines import limit_seconds
from gateway.base.errors import (
    RESTARTING,
    AccountSuspended,
    BadRequest,
    BalanceHeld,
    GatewayError,
    InsufficientBalance,
    InvalidKey,
    Lack,
    LedgerUnavailable,
    Overloaded,
    RateLimited,
)
from gateway.base.money import format_amount
from gateway.base.times import format_moment
from gateway.config.records import Config
from gateway.extension import tell_next_step
from gateway.ledger.base import Key
from gateway.ledger.budget_records import Budget
from gateway.ledger.key_records import EndedKey
from gateway.ledger.records import MOST_SPENT_NANO
from gateway.ledger.serving.ledger import ServingLedger

LOOKUP_SECONDS: Final = 1.0
"""How long a refusal waits for the latest changes, and for when a key ended: a ledger that hangs must not delay it."""
OUTDATED: Final = (InvalidKey, AccountSuspended, RateLimited, InsufficientBalance)
"""Refusals that may be outdated: another process may just have committed a change."""


def require_key(handler: KeyHandler, *, for_money: bool) -> Handler:
    """Wrap a handler so that it serves only callers with a usable key, and count requests in flight.

    `for_money`: requests are charged, so they need a balance and a ledger that can be written.
    """

    async def serve(http: web.Request, call: Call) -> web.StreamResponse:
        secret = read_key(http)
        try:
            keyed = authorize(call, secret, call.started, for_money=for_money)
        except OUTDATED:
            keyed = await _authorize_again(call, secret, for_money=for_money)
        gateway = call.gateway
        note_known(http, keyed.key.account.id)
        gateway.in_flight += 1
        try:
            return await handler(http, keyed)
        finally:
            gateway.in_flight -= 1
            if call.buffered_bytes:
                count_bytes(keyed, -call.buffered_bytes)
            keyed.rates.release()

    return serve


def note_known(http: web.BaseRequest, account_id: int | None = None) -> None:
    """Note that the caller is known, so the connection is not closed for others while it is served.

    If there is an account, later reads on this connection use the account's share of the loop's turns.
    """
    connection = http.protocol
    if isinstance(connection, PacedConnection):  # a test may serve by aiohttp's own
        visitor = connection.visitor
        visitor.is_known = visitor.was_known = True
        visitor.owner = visitor.owner if account_id is None else account_id


def authorize(call: Call, secret: str, now: float, *, for_money: bool) -> KeyedCall:
    """Find the key of a request, make all checks that need no body, and count the request.

    Raises InvalidKey, AccountSuspended, Overloaded, LedgerUnavailable, RateLimited or
    InsufficientBalance, and then counts nothing.
    """
    gateway = call.gateway
    call.key = gateway.ledger.find_key(ids.digest(secret))  # set first: refusals count by account
    key = check_standing(call.key, call.started_ms)
    if gateway.draining:
        raise Overloaded(RESTARTING)
    if gateway.in_flight >= gateway.config.server.max_in_flight:
        raise Overloaded(
            "The gateway has reached its limit of requests in flight. Try again shortly."
        )
    if for_money and not gateway.ledger.writable:
        raise LedgerUnavailable
    rates = call.rates = gateway.rates.find(key, gateway.config, now)
    # Nothing is counted before all checks have passed, so a refused request costs no rate.
    rates.check(now)
    if for_money:
        check_balance(call, key, call.started_ms)  # before the body is read; the hold checks again
    rates.admit()
    return cast("KeyedCall", call)


async def _authorize_again(call: Call, secret: str, *, for_money: bool) -> KeyedCall:
    """Try again with changes committed just now, such as a key, a credit or a higher limit."""
    gateway = call.gateway
    # Our keys include a checksum, so made-up ones do not make the ledger look for changes. A key of
    # another form may be an adopted one that has ended.
    if not ids.is_well_formed(secret):
        if not secret:
            hint = "Send one as 'Authorization: Bearer sk-ru-...' or 'x-api-key: sk-ru-...'."
            raise InvalidKey(hint, "No API key was provided.")
        if secret.startswith(ids.PREFIX) or ids.find_last4(secret) is None:
            raise InvalidKey
        raise await explain_end(gateway, ids.digest(secret))
    await catch_up(gateway.ledger)
    digest = ids.digest(secret)
    if gateway.ledger.find_key(digest) is None:
        raise await explain_end(gateway, digest)
    return authorize(call, secret, time.monotonic(), for_money=for_money)


async def catch_up(ledger: ServingLedger) -> None:
    """Wait until changes that the command line has just committed are known.

    All requests that wait share one look at the ledger, which takes a millisecond.
    """
    # If the ledger hangs, the refusal is decided by what is known already.
    with contextlib.suppress(TimeoutError):
        async with limit_seconds(LOOKUP_SECONDS):
            await ledger.refresh()


def read_key(http: web.Request) -> str:
    """Return the key from either header, or "".

    Raises BadRequest when two keys differ, and InvalidKey for a key in the query string.
    """
    headers = http.headers
    keys, bearers = headers.getall("x-api-key", ()), headers.getall(hdrs.AUTHORIZATION, ())
    # The usual case: one key, in one header, in the usual spelling.
    if not keys and len(bearers) == 1 and bearers[0][:7] == "Bearer ":
        secret = bearers[0][7:].strip()
        if secret:
            return secret
    secrets = {value.strip() for value in keys}
    for value in bearers:
        scheme, _, secret = value.partition(" ")
        # Names of schemes are case-insensitive (RFC 9110 §11.1).
        if scheme.lower() == "bearer":
            secrets.add(secret.strip())
    secrets.discard("")
    if len(secrets) > 1:
        raise BadRequest("The request carries two different API keys; send one.")
    if secrets:
        return secrets.pop()
    if ids.PREFIX in http.query_string:
        raise InvalidKey(
            "It is in the address, where logs keep it: send it in the header Authorization or"
            " x-api-key."
        )
    return ""


def check_standing(key: Key | None, now_ms: int) -> Key:
    """Return a key that may be used.

    Raises InvalidKey if it is unknown, revoked or expired, AccountSuspended if its account is suspended.
    """
    if key is None:
        raise InvalidKey
    if not key.is_live(now_ms):
        raise refuse_ended(EndedKey(key.revoked_ms, key.terms.expires_ms))
    if key.account.suspended:
        raise AccountSuspended("This account is suspended. Ask whoever runs this gateway.")
    return key


def check_balance(call: Call, key: Key, now_ms: int) -> None:
    """Raise InsufficientBalance when the account's balance, the key's cap or budget is used up."""
    cap_nano, budget = key.terms.cap_nano, key.budget
    lack: Lack | None = None
    if key.account.balance_nano <= 0:
        lack = "balance"
    elif cap_nano is not None and key.spent_nano >= cap_nano:
        lack = "cap"
    elif budget is not None and budget.is_spent(now_ms):
        lack = "budget"
    if lack is not None:
        raise refuse_funds(lack, key, budget, call.gateway.config)


def refuse_funds(lack: Lack, key: Key, budget: Budget | None, config: Config) -> GatewayError:
    """Make the refusal of a key without money left. `budget` is the key's, or was at the hold."""
    currency, url, title = config.billing.currency, config.server.public_url, ""
    if budget is not None:
        title = "this key's budget" if budget.name is None else f"the budget '{budget.name}'"
    held = "is held by requests in flight. Try again when one has finished"
    match lack:
        case "balance":
            balance = format_amount(key.account.balance_nano)
            words = f"The balance is {balance} {currency}. {tell_next_step('top_up', url)}"
        case "cap":
            cap_nano, spent = key.terms.cap_nano, format_amount(key.spent_nano)
            cap = format_amount(MOST_SPENT_NANO if cap_nano is None else cap_nano)
            words = f"This key has spent {spent} {currency} and may spend {cap} {currency}. {tell_next_step('raise_cap', url)}"
        case "budget":
            assert budget is not None
            words = _tell_spent(budget, title, currency)
        case "balance held":
            return BalanceHeld(f"The account's whole balance {held}, or top up.")
        case "cap held":
            return BalanceHeld(f"The rest of this key's spending cap {held}.")
        case "budget held":
            return BalanceHeld(f"The rest of {title} {held}.")
        case _:
            assert_never(lack)
    return InsufficientBalance(words)


def _tell_spent(budget: Budget, title: str, currency: str) -> str:
    amount, period = format_amount(budget.allowance.amount_nano), budget.allowance.period
    return (
        f"{title[0].upper()}{title[1:]} of {amount} {currency} a {period} is spent."
        f" It resets at {format_moment(budget.spending.span.ends_ms)} UTC. Raise it or use another key."
    )


async def explain_end(gateway: Gateway, digest: bytes) -> InvalidKey:
    """Return the refusal of a key that is not in memory, with the time when it ended if that is known."""
    unknown = InvalidKey()
    lookups, now = gateway.ended_key_lookups, time.monotonic()
    # Anybody can compute the checksum, so look-ups of made-up keys are limited.
    if lookups.wait_seconds(1, now) > 0:
        return unknown
    lookups.level -= 1
    try:
        async with limit_seconds(LOOKUP_SECONDS):
            ended = await gateway.ledger.read_ended_key(digest)
    except (TimeoutError, LedgerUnavailable):
        return unknown
    return unknown if ended is None else refuse_ended(ended)


def refuse_ended(key: EndedKey) -> InvalidKey:
    """Make the refusal of a key that has ended."""
    if key.revoked_ms is not None:
        how = f"was revoked on {format_moment(key.revoked_ms)}"
    else:
        assert key.expires_ms is not None
        how = f"expired on {format_moment(key.expires_ms)}"
    return InvalidKey(f"This key {how} UTC. {tell_next_step('make_key')}")
