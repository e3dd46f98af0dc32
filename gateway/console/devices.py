"""What a session was opened on, in two words: enough to know one's own. No I/O."""

from __future__ import annotations

import re
from typing import Final

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
"""The first that is named: most also name those they descend from."""

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
UNKNOWN: Final = "Unknown device"


def describe_device(user_agent: str) -> str:
    """Such as `Firefox on Linux`; of a script the name it gives itself."""
    browser = _find(user_agent, _BROWSERS)
    system = _find(user_agent, _SYSTEMS)
    if browser is None:
        product = _PRODUCT.match(user_agent)
        browser = product[0] if product and product[0] != "Mozilla" else None
    if browser and system:
        return f"{browser} on {system}"
    return browser or system or UNKNOWN


def _find(user_agent: str, names: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for sign, name in names if sign in user_agent), None)
