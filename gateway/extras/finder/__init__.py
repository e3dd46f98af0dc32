"""A search from every page of the console: accounts, keys, request ids, models, providers, pages.

Without it each is found on the page that lists it.

    book       searches of the ledger; what is found, and searches that other extras add by `Extra.adds_to`
    console    the route
    static     the button and the shortcuts; the dialog, which is loaded when it is first opened
"""

from __future__ import annotations

from gateway.extension import Extra


def _add_to_console() -> object:
    from gateway.extras.finder.console import ADDITION

    return ADDITION


EXTRA = Extra(needs=("console",), adds_to={"console": _add_to_console})
