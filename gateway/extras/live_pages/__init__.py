"""Pages of the console that renew themselves while somebody looks at them.

Without it a page shows what was so when it was opened, until it is loaded again.

    renewer    whether anything changed, by rows of the ledger; the route that is asked it every few seconds;
               replies that all who look at the same page share
    static     the script that asks, and the one that merges what is new into the page
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _add_to_console() -> object:
    from gateway.extras.live_pages.renewer import ADDITION

    return ADDITION


def _start(_: Gateway) -> Started:
    from gateway.extras.live_pages.renewer import Sharing

    return Started(offers=(Sharing(),))


EXTRA = Extra(needs=("console", "observations"), adds={"console": _add_to_console}, start=_start)
