"""Stored responses: replies of Responses callers are kept in memory for a while, for later requests.

Without it `previous_response_id`, `item_reference` and `store: true` are refused, and
`/v1/responses/{id}` is no path. Nothing is written to a disk.

settings  the table [responses] of gateway.toml
shelves   the kept responses, by account
compacting  `/v1/responses/compact`: a conversation in a shorter form
texts     requests and replies in the form that is kept, and in that which callers get
serving   the paths of `/v1`, and the memory of the process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.extension import Started


def _find_settings() -> type:
    from gateway.extras.recall.settings import Responses

    return Responses


def _start(gateway: Gateway) -> Started:
    from gateway.extras.recall.serving import start

    return start(gateway)


EXTRA = Extra(
    needs=("count_tokens", "responses"), tables={"responses": Table(_find_settings)}, start=_start
)
