"""Pages of the console that renew themselves while somebody looks at them.

Without it a page shows what was so when it was opened, until it is loaded again.

    renewer    whether anything changed, and replies that all who look at the same page share
    marks      rows of the ledger that tell it
    console    the route that is asked every few seconds
    static     the script that asks, and the one that merges what is new into the page
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _add_to_console() -> object:
    from gateway.extras.live_pages.console import ADDITION

    return ADDITION


def _start(_: Gateway) -> Started:
    from gateway.extras.live_pages.renewer import Sharing

    return Started(offers=(Sharing(),))


EXTRA = Extra(needs=("console", "observations"), adds={"console": _add_to_console}, start=_start)
