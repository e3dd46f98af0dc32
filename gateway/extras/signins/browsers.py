"""Read what browsers say of themselves and keep: site, device, cookies.

The Host header proves nothing, as anybody can set it. It can only be evidence against a request: a browser
sends the host name of its page, even if somebody pointed that name at this machine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from gateway.base.addresses import make_origin
from gateway.config.records import Server
from gateway.extras.signins.records import SESSION_MS
from gateway.extras.signins.throttle import Cookie, name_cookie

if TYPE_CHECKING:
    from aiohttp import web

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

NAME: Final = "gateway_session"
SECURE_PREFIX: Final = "__Host-"
"""The prefix makes browsers accept a cookie over https only, and from this host only."""

MAX_AGE_SECONDS: Final = SESSION_MS // 1000
"""The longest a session can last; the server ends an unused one earlier."""


def is_same_site(
    headers: Mapping[str, str], own_origins: Collection[str], *, is_change: bool = True
) -> bool:
    """Return whether the console's own page sent the request, or a client that is no browser.

    Browsers send Origin or Sec-Fetch-Site with every change. Scripts send neither, and no foreign site can
    misuse a user's cookie by them. Behind a tunnel the page's origin is not known here: then it must equal
    the Host header, and for a change the browser must also send a Sec-Fetch-Site that is not another site's.
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
