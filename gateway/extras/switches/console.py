"""Switches in the console: operators see what is off, and switch it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

from gateway.extras.console.additions import Addition
from gateway.extras.console.routes import (
    OPERATORS,
    READERS,
    Answer,
    ConsoleRequest,
    async_route,
    route,
)
from gateway.extras.switches.book import list_switches, switch_off, switch_on
from gateway.extras.switches.records import SWITCH, Kind
from gateway.extras.switches.serving import Switches
from gateway.ledger.sql.books import Books

ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    parts={"models": "switches", "providers": "switches", "health": "switches"},
)


@route("GET", "/switches", "operator", READERS)
def show_switches(books: Books, request: ConsoleRequest) -> Answer:
    found = list_switches(books, request.gateway.config)
    return Answer({"count": len(found), "switches": [SWITCH.describe(one) for one in found]})


@async_route("POST", "/switches/off", "operator", OPERATORS)
async def post_off(request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        kind: Kind = fields.need_choice("kind", get_args(Kind))
        name, note = fields.need_text("name"), (fields.text("note") or "").strip()
    config = request.gateway.config
    await request.run(lambda books: switch_off(books, config, kind, name, note))
    return await _answer(request)


@async_route("POST", "/switches/on", "operator", OPERATORS)
async def post_on(request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        kind: Kind = fields.need_choice("kind", get_args(Kind))
        name = fields.need_text("name")
    config = request.gateway.config
    await request.run(lambda books: switch_on(books, config, kind, name))
    return await _answer(request)


async def _answer(request: ConsoleRequest) -> Answer:
    """Answer once the switch is in force in this process; other processes hear of it through the ledger."""
    for switches in request.gateway.find_offers(Switches):
        await switches.refresh()
    return await request.run(lambda books: show_switches(books, request))
