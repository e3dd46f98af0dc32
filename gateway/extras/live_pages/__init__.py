"""Pages of the console that renew themselves while somebody looks at them.

Without it a page shows the state at which it was opened, until it is loaded again.

    renewer    finds by rows of the ledger whether anything changed; the route that pages ask this every few
               seconds; replies that are shared by all who look at the same page
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


EXTRA = Extra(needs=("console", "observations"), adds_to={"console": _add_to_console}, start=_start)
