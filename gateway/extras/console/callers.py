"""Find the sender of a request: a person, a script, or nobody known.

A person is known by a session or by a trusted proxy's header, a script by a token. The identity header
counts only if the TCP connection itself comes from a trusted proxy: it is not enough that X-Forwarded-For
names one. If it counts, a cookie is ignored. Any program on the proxy's machine can send the header, even a
browser, so the Host header must name this site: otherwise a page of another host name could have sent the
request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.api.front import Call
from gateway.base.addresses import Network, parse_address
from gateway.config.records import Config, Server
from gateway.extras.console.additions import find_credentials
from gateway.extras.console.errors import ConsoleError, too_many_changes
from gateway.extras.console.routes import Caller, find_local
from gateway.extras.console.state import ConsoleState
from gateway.extras.console.table import Console
from gateway.extras.signins import signin
from gateway.extras.signins.browsers import (
    describe_device,
    find_own_origins,
    is_own_host,
    read_session_token,
)
from gateway.extras.signins.records import FailedBy, SessionView
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.throttle import ADDRESS_SECONDS, ADDRESS_TRIES, network_of
from gateway.ledger.checks import MAX_NAME_CHARS
from gateway.ledger.records import Actor, NotFound

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
API_HEADERS: Final = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
RENEWAL: Final = "X-Renewal"
"""The header of requests by which a page refreshes itself. They do not count as a use of the session."""


def read_tokens(http: web.Request) -> set[str]:
    """Return the scripts' credentials in a request. Other bearer credentials, as proxies add, are ignored."""
    headers = [one.partition(" ") for one in http.headers.getall(hdrs.AUTHORIZATION, ())]
    found = {secret.strip() for scheme, _, secret in headers if scheme.lower() == "bearer"}
    # A set, since a proxy may repeat the header: the same token twice is one caller.
    prefixes = tuple(one.prefix for one in find_credentials())
    return {secret for secret in found if secret.startswith(prefixes)}


def read_identity(http: web.Request, config: Config) -> str | None:
    """Return the account's name that a trusted proxy vouches for, if any. Raises ConsoleError."""
    header, proxies = config.find(Console).identity_header, config.server.trusted_proxies
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


async def find_caller(http: web.Request, call: Call, console: ConsoleState) -> Caller:
    """Return the sender of the request; None if it is nobody known. Raises ConsoleError."""
    config = call.gateway.config
    secrets, identity = read_tokens(http), read_identity(http, config)
    cookie, is_use = read_session_token(http, config.server), RENEWAL not in http.headers
    if secrets:
        if len(secrets) > 1 or identity is not None or cookie is not None:
            raise ConsoleError(
                400,
                "two_callers",
                "The request has a token and says also otherwise who sends it. Send the token"
                " alone, without a cookie and not through a proxy that signs people in.",
            )
        secret = secrets.pop()
        (find,) = (one.find for one in find_credentials() if secret.startswith(one.prefix))
        return await find(secret, call, console)
    if identity is not None:
        if not is_own_host(http.headers, read_own_origins(http, config.server)):
            raise ConsoleError(
                403,
                "cross_site",
                "This request was sent to another name than the console's. Open the console at the"
                " address that public_url names in gateway.toml. The proxy must pass on the Host"
                " header as it is.",
            )
        return await _find_named(identity, http, call, console)
    if cookie is None:
        return None
    return await console.books_thread.run(
        nobody(call), lambda books: signin.find_session(books, cookie, is_use=is_use)
    )


async def _find_named(
    name: str, http: web.Request, call: Call, console: ConsoleState
) -> SessionView:
    """Return the session of an account and an address; opening one counts as a change."""
    run = partial(console.books_thread.run, nobody(call))
    address = call.visit["address"]
    is_use = RENEWAL not in http.headers
    session = await run(
        lambda books: SignInBook(books).find_by_header(name, address, is_use=is_use)
    )
    if session is not None:
        return session
    try:
        account_id = await run(lambda books: books.accounts.find_id(name))
    except NotFound as error:
        await note_failure(call, console, "identity header")
        raise ConsoleError(
            403,
            "identity_unknown",
            f"The proxy in front of this gateway signed you in as '{name}', but no account has this"
            " name. Ask the operator of the gateway to add it.",
        ) from error
    # An address can be made up where X-Forwarded-For is passed on, and each opens a session.
    if wait_seconds := console.changes.take(account_id):
        raise too_many_changes(wait_seconds)
    device = describe_device(http.headers.get(hdrs.USER_AGENT, ""))
    # Nobody gets the token: the proxy names the account with each request.
    _, opening = signin.prepare_session(device, address)
    return await run(lambda books: SignInBook(books).open_by_header(name, opening))


async def note_failure(call: Call, console: ConsoleState, how: FailedBy) -> None:
    run = partial(console.books_thread.run, nobody(call))
    await console.door.note_failure(run, call.visit["address"], None, how)


def take_try(call: Call, console: ConsoleState, what: str) -> int:
    """Count a try of the request's address; return the seconds to wait if it made too many."""
    tries = console.find_tries(what, ADDRESS_TRIES, ADDRESS_SECONDS)
    return tries.take(network_of(call.visit["address"]))


def nobody(call: Call) -> Actor:
    return Actor("nobody", call.visit["address"])


def read_own_origins(http: web.Request, server: Server) -> frozenset[str]:
    return find_own_origins(server, find_local(http))


def is_trusted(peer: str, networks: Sequence[Network]) -> bool:
    """Return whether a connection comes from one of the networks; a UNIX socket's does not."""
    address = parse_address(peer)
    return address is not None and any(address in one for one in networks)
