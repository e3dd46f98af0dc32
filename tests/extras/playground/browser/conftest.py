"""The gateway of the console's tests. Without the console there is no page to test."""

from __future__ import annotations

from gateway.extension import find_extras

if "console" in find_extras():
    from tests.extras.console.browser.conftest import console, site

    __all__ = ["console", "site"]
else:
    collect_ignore_glob = ["test_*"]
