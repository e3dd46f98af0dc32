"""The route that pages ask whether they have to renew what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.extras.console.additions import Addition
from gateway.extras.console.routes import ConsoleRequest, Reply, async_route
from gateway.extras.live_pages.renewer import Sharing

ADDITION: Final = Addition(scripts=(Path(__file__).with_name("static"),), parts={"shell": "live"})


@async_route("GET", "/live", "any", logged=False)
async def show_mark(request: ConsoleRequest) -> Reply:
    """Show a mark that changes with what the caller's pages show. It is not logged, as it comes so often."""
    (sharing,) = request.gateway.find_offers(Sharing)
    return await sharing.show_mark(request)
