"""The console's page with the gateway's name, and the two files that its look adds.

They are served to everybody, because the sign-in page has them, too. Each is written from the settings at
each request, so a reload of gateway.toml changes it.
"""

from __future__ import annotations

import html
import re
from functools import partial
from typing import Final

from aiohttp import web

from gateway.api.front import Call, make_front
from gateway.api.state import Gateway
from gateway.config.records import Config
from gateway.extension import Started
from gateway.extras.brand import colours
from gateway.extras.brand.colours import Colour, Theme
from gateway.extras.brand.settings import Brand
from gateway.extras.console.additions import Addition

SHEET: Final = "/console/static/brand.css"
LOGO: Final = "/console/static/logo"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""An SVG has its styles within it. Pages show it as a picture; opened by its address it can do nothing."""
_ICON: Final = '<link rel="icon" href="/console/static/icon.svg">'
_NAME: Final = "Gateway"
_LOGO_RULES: Final = """
.logo { flex-wrap: wrap; }
.logo::before { display: none; }
.logo img { height: 1.6rem; max-width: 100%; object-fit: contain; }
@media (max-width: 72rem) {
  .brand .logo { flex-wrap: nowrap; }
  .brand .logo img { flex: none; max-width: 50%; }
}
"""


def dress(config: Config, page: str) -> str:
    """Write the name into the page, and links to its look if it has one."""
    brand = config.find(Brand)
    if brand.name is not None:
        page = page.replace(_NAME, html.escape(brand.name))
    if brand.logo is not None:
        page = page.replace(_ICON, f'<link rel="icon" href="{LOGO}" data-logo="yes">')
    if brand.logo is not None or brand.accent is not None:
        page = page.replace("</head>", f'<link rel="stylesheet" href="{SHEET}">\n</head>')
    return page


ADDITION: Final = Addition(dress=dress)


def start(gateway: Gateway) -> Started:
    return Started(add_routes=partial(_add_routes, gateway))


def _add_routes(gateway: Gateway, app: web.Application) -> None:
    front = partial(make_front, gateway, surface="console", logged=False)
    for path, handler in ((SHEET, show_sheet), (LOGO, show_logo)):
        app.router.add_get(path, front(handler))


async def show_sheet(request: web.Request, call: Call) -> web.Response:
    from gateway.extras.console.pages import make_file, reply_file

    brand = call.gateway.config.find(Brand)
    return reply_file(request, make_file("brand.css", _write_sheet(brand).encode()))


async def show_logo(request: web.Request, call: Call) -> web.Response:
    from gateway.extras.console.pages import File, make_file, reply_file, show_missing

    logo = call.gateway.config.find(Brand).logo
    if logo is None:
        return await show_missing(request, call)
    made = make_file("logo.svg", logo.body)
    reply = reply_file(request, File(made.gzipped, made.etag, logo.content_type))
    reply.headers["Content-Security-Policy"] = _POLICY
    return reply


def _write_sheet(brand: Brand) -> str:
    """Write the rules of the accent and of the logo."""
    rules = _LOGO_RULES if brand.logo is not None else ""
    if brand.accent is None:
        return rules
    accent = colours.parse(brand.accent)
    light, dark = (colours.shade(accent, theme) for theme in read_themes())
    names = ("accent", "tint")
    pairs = (
        f"--{name}: light-dark({colours.write(one)}, {colours.write(other)});"
        for name, one, other in zip(names, light, dark, strict=True)
    )
    return f":root {{ {' '.join(pairs)} }}\n{rules}"


def read_themes() -> tuple[Theme, Theme]:
    """Read the light and the dark theme from the console's own style sheet."""
    from gateway.extras.console.pages import FILES

    sheet = FILES["style.css"].body.decode()

    def find(name: str, theme: int) -> Colour:
        found = re.search(rf"--{name}: light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)", sheet)
        assert found is not None, name
        return colours.parse(found[theme])

    light, dark = (
        Theme((find("surface", theme), find("bg", theme)), find("dim", theme), end, tint)
        for theme, end, tint in ((1, (0, 0, 0), 10), (2, (255, 255, 255), 18))
    )
    return light, dark
