"""Find who sends a request, and from where: which person, script or nobody; site, address and device.

A person comes by a session or a trusted proxy's header, a script by a token. The identity header counts
only if the connection comes from a trusted proxy over TCP, not if X-Forwarded-For names one; from
anywhere else it is ignored. Where it counts it decides alone, also against a cookie. Any program on the
proxy's machine can send it, browsers too: so the request must not come from a page of another host name,
which the Host header tells.

The Host header proves nothing, as anybody can set it. It can only speak against a request: a browser
sends the name that its page has, also if somebody made that name lead to this machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.addresses import is_trusted, make_origin
from gateway.api.state import Call
from gateway.config.records import Config, Server
from gateway.extras.console import signin
from gateway.extras.console.additions import find_credentials
from gateway.extras.console.fields import ConsoleError, too_many_changes
from gateway.extras.console.routes import Caller, find_local
from gateway.extras.console.state import ConsoleState
from gateway.extras.console.table import Console
from gateway.extras.console.throttle import Cookie, name_cookie
from gateway.ledger import signin_records
from gateway.ledger.checks import MAX_NAME_CHARS
from gateway.ledger.records import Actor, NotFound

_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""The accepted values of Sec-Fetch-Site. `none` is a typed address or a bookmark."""

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - a comparison

_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
"""The first match wins: most browsers also name the ones they descend from."""

_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_PRODUCT = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,29}")
UNKNOWN_DEVICE: Final = "Unknown device"

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

NAME: Final = "gateway_session"
SECURE_PREFIX: Final = "__Host-"
"""The prefix makes browsers accept a cookie over https only, and from this host only."""

MAX_AGE_SECONDS: Final = signin_records.SESSION_MS // 1000
"""The longest a session can last; the server ends an unused one earlier."""


def read_tokens(http: web.Request) -> set[str]:
    """Return the credentials of scripts in a request. Other bearer ones, as proxies add, are ignored."""
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
        nobody(call), lambda books: signin.find_session(books, cookie)
    )


async def _find_named(
    name: str, http: web.Request, call: Call, console: ConsoleState
) -> signin_records.SessionView:
    """Return the session of an account and an address; opening one counts as a change."""
    run = partial(console.books_thread.run, nobody(call))
    address = call.visit["address"]
    session = await run(lambda books: books.signins.find_by_header(name, address))
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
    return await run(lambda books: books.signins.open_by_header(name, opening))


async def note_failure(call: Call, console: ConsoleState, how: signin_records.FailedBy) -> None:
    if console.throttle.take_note(how, call.visit["address"]):
        await console.books_thread.run(
            nobody(call), lambda books: books.signins.note_failure(None, how)
        )


def nobody(call: Call) -> Actor:
    return Actor("nobody", call.visit["address"])


def is_same_site(
    headers: Mapping[str, str], own_origins: Collection[str], *, is_change: bool = True
) -> bool:
    """Return whether the console's own page sent the request, or a client that is no browser.

    Browsers send one of the two headers with every change. A script sends neither; there a foreign
    site cannot misuse the user's cookie. Behind a tunnel the page has an origin that is not known
    here: it equals the Host header, and for a change the browser has to say that it is the same.
    """
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if is_change and site is not None and site not in _OWN_SITES:
        return False
    if origin is None or origin in own_origins:
        return True
    is_told = site is not None or not is_change
    # Nothing is left of `Origin: null`, which must not equal an empty Host.
    return is_told and origin.partition("://")[2] == (headers.get("Host") or None)


def is_own_host(headers: Mapping[str, str], own_origins: Collection[str]) -> bool:
    """Return whether the request names this site, and no other one, as its target and its origin.

    A page of another name that was made to lead to this machine may send any header but these.
    """
    own_hosts = {one.partition("://")[2] for one in own_origins}
    origin = headers.get("Origin")
    return headers.get("Host", "").lower() in own_hosts and (
        origin is None or origin in own_origins
    )


def read_own_origins(http: web.Request, server: Server) -> frozenset[str]:
    return find_own_origins(server, find_local(http))


def find_own_origins(server: Server, local: tuple[str, int] | None) -> frozenset[str]:
    """Return the console's origins: `public_url` if it is set, else its own addresses.

    `local` is the host and port at which the connection came in. It is the only certain address
    if the server listens on all of them, on any free port, or on a socket that was passed to it.
    """
    if server.public_url is not None:
        return frozenset({server.public_url})
    host, port = local or (server.host, server.port)
    hosts = {*_LOOPBACK, server.host, host}.difference(_ANY)
    return frozenset(make_origin(one, port) for one in hosts)


def describe_device(user_agent: str) -> str:
    """Describe a browser, so that people recognise their own sessions.

    The text is such as `Firefox on Linux`, or the product name that a script gives itself.
    """
    browser = _find(user_agent, _BROWSERS)
    system = _find(user_agent, _SYSTEMS)
    if browser is None:
        product = _PRODUCT.match(user_agent)
        browser = product[0] if product and product[0] != "Mozilla" else None
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or UNKNOWN_DEVICE


def _find(user_agent: str, names: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for sign, name in names if sign in user_agent), None)


def read_session_token(request: web.Request, server: Server) -> str | None:
    return request.cookies.get(_name(NAME, server))


def read_device_cookie(request: web.Request, account: str, server: Server) -> str | None:
    return request.cookies.get(_name(name_cookie(account), server))


def make_session_cookie(token: str | None) -> Cookie:
    """Make the cookie of a new session; None deletes the cookie."""
    return Cookie(NAME, token or "", 0 if token is None else MAX_AGE_SECONDS)


def write_cookie(response: web.Response, cookie: Cookie, server: Server) -> None:
    response.set_cookie(
        _name(cookie.name, server),
        cookie.value,
        max_age=cookie.max_age_seconds,
        path="/",
        secure=_is_secure(server),
        httponly=True,
        samesite="Lax",  # not Strict: links from elsewhere, such as sign-in mails, would seem signed out
    )


def _name(name: str, server: Server) -> str:
    return SECURE_PREFIX + name if _is_secure(server) else name


def _is_secure(server: Server) -> bool:
    return (server.public_url or "").startswith("https://")
