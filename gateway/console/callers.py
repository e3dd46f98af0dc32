"""Find who sends a request: a person by a session or a trusted proxy's header, a script by a token, or nobody.

The identity header counts only if the connection comes from a trusted proxy over TCP, not if
X-Forwarded-For names one; from anywhere else it is ignored. Where it counts it decides alone, also
against a cookie. Any program on the proxy's machine can send it, browsers too: so the request must
not come from a page of another host name, which the Host header tells.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.addresses import is_trusted
from gateway.admin import keys, signin
from gateway.api.state import Call
from gateway.config.records import Config
from gateway.console.fields import ConsoleError, invalid_token, too_many_changes, too_many_tries
from gateway.console.origin import (
    describe_device,
    find_own_origins,
    is_own_host,
    read_session_token,
)
from gateway.console.routes import Caller, find_local
from gateway.console.state import ConsoleState
from gateway.console.throttle import network_of
from gateway.ledger.checks import MAX_NAME_CHARS
from gateway.ledger.records import Actor, NotFound
from gateway.ledger.signin_records import SCRIPT_PREFIX, FailedBy, SessionView, TokenView

_ENDED: Final = {
    "expired": "This token has expired. Ask the operator of this gateway for a new one.",
    "revoked": "This token is revoked. Ask the operator of this gateway for a new one.",
}


def read_tokens(http: web.Request) -> set[str]:
    """Return the scripts' tokens of a request. Other bearer credentials, as proxies add, are ignored."""
    headers = [one.partition(" ") for one in http.headers.getall(hdrs.AUTHORIZATION, ())]
    found = {secret.strip() for scheme, _, secret in headers if scheme.lower() == "bearer"}
    # A set, since a proxy may repeat the header: the same token twice is one caller.
    return {secret for secret in found if secret.startswith(SCRIPT_PREFIX)}


def read_identity(http: web.Request, config: Config) -> str | None:
    """Return the account's name that a trusted proxy vouches for, if any. Raises ConsoleError."""
    header, proxies = config.console.identity_header, config.server.trusted_proxies
    if header is None or not is_trusted(http.remote or "", proxies):
        return None
    values = http.headers.getall(header, [])
    if not any(values):
        return None
    # A proxy that appends to the header instead of replacing it lets its users choose the name: then
    # there are two headers, or one with a comma.
    name = values[0]
    if len(values) > 1 or "," in name or not name.isprintable() or len(name) > MAX_NAME_CHARS:
        raise ConsoleError(
            400,
            "identity_invalid",
            f"The proxy must send one header {header} with one account's name. Ask the operator to"
            " let it drop this header from the requests that it gets.",
        )
    return name


def _require_own_host(http: web.Request, config: Config) -> None:
    """Refuse an identity header in a request for another host name. Raises ConsoleError."""
    if not is_own_host(http.headers, find_own_origins(config.server, find_local(http))):
        raise ConsoleError(
            403,
            "cross_site",
            "This request was sent to another name than the console's. Open the console at the address"
            " that public_url names in gateway.toml. The proxy must pass on the Host header as it is.",
        )


async def find_caller(http: web.Request, call: Call, console: ConsoleState) -> Caller:
    """Return who sends the request; None is nobody. Raises ConsoleError."""
    config = call.gateway.config
    secrets, identity = read_tokens(http), read_identity(http, config)
    cookie = read_session_token(http, config.server)
    if secrets:
        if len(secrets) > 1 or identity is not None or cookie is not None:
            raise ConsoleError(
                400,
                "two_callers",
                "The request has a token and says also otherwise who sends it. Send the token"
                " alone, without a cookie and not through a proxy that signs people in.",
            )
        return await _find_token(secrets.pop(), call, console)
    if identity is not None:
        _require_own_host(http, config)
        return await _find_named(identity, http, call, console)
    if cookie is None:
        return None
    return await console.books_thread.run(
        _nobody(call), lambda books: signin.find_session(books, cookie)
    )


async def _find_token(secret: str, call: Call, console: ConsoleState) -> TokenView:
    """Return the active token. Valid tokens are admitted however many wrong ones came before."""
    token, now_ms = await console.books_thread.run(
        _nobody(call), lambda books: (keys.find_token(books, secret), books.clock())
    )
    if token is None:
        # Only wrong tokens are counted: else strangers behind one address could lock a script out.
        await _note_failure(call, console, "token")
        wait_seconds = console.token_tries.take(network_of(call.visit["address"]))
        if wait_seconds:
            message = f"Too many wrong tokens. Wait {wait_seconds} seconds, then try again."
            raise too_many_tries(wait_seconds, message)
        raise invalid_token("token_invalid", "There is no such token. Check that it is complete.")
    status = token.status(now_ms)
    if status != "active":
        raise invalid_token(f"token_{status}", _ENDED[status])
    return token


async def _find_named(
    name: str, http: web.Request, call: Call, console: ConsoleState
) -> SessionView:
    """Return the session of an account and an address; opening one counts as a change."""
    run = partial(console.books_thread.run, _nobody(call))
    address = call.visit["address"]
    session = await run(lambda books: books.signins.find_by_header(name, address))
    if session is not None:
        return session
    try:
        account_id = await run(lambda books: books.accounts.find_id(name))
    except NotFound as error:
        await _note_failure(call, console, "identity header")
        raise ConsoleError(
            403,
            "identity_unknown",
            f"The proxy in front of this gateway signed you in as '{name}', but no account has this"
            " name. Ask the operator of the gateway to add it.",
        ) from error
    # An address can be made up where X-Forwarded-For is passed on, and each opens a session.
    if wait_seconds := console.changes.take(account_id):
        raise too_many_changes(wait_seconds)
    visitor = signin.Visitor(describe_device(http.headers.get(hdrs.USER_AGENT, "")), address)
    return await run(lambda books: signin.open_session_by_header(books, name, visitor))


async def _note_failure(call: Call, console: ConsoleState, how: FailedBy) -> None:
    if console.throttle.take_note(how, call.visit["address"]):
        await console.books_thread.run(
            _nobody(call), lambda books: books.signins.note_failure(None, how)
        )


def _nobody(call: Call) -> Actor:
    return Actor("nobody", call.visit["address"])
