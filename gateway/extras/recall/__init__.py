"""Responses callers that let their replies be stored: what they refer to is kept in memory for a while.

Without it `previous_response_id`, `item_reference` and `store: true` are refused, and
`/v1/responses/{id}` is no path. Nothing is written to a disk.

settings  the table [responses] of gateway.toml
shelves   what is kept: by account, the oldest leaves first
compacting  what stands in place of a conversation
texts     requests and replies as they are kept, and as they are told
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
