"""Providers' keys that change while the gateway serves, from a command or a file, and Claude at Google.

Without this extra, no command can print keys, as clouds require (Vertex AI, Entra), files with keys are read
only at the start and at reloads, and no provider can have `dialect = "vertex"`.

keys    the sources of keys, and the tasks that renew them
vertex  Anthropic's API at Google's paths, including the path that counts tokens
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import Dialect
from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.config.records import Config
    from gateway.dialects.formats import Formats
    from gateway.extras.renewal.keys import Renewals


def _start(gateway: Gateway) -> Started:
    renewals: Renewals | None = None

    def follow() -> None:
        nonlocal renewals
        providers = gateway.routes.providers.values()
        if renewals is None and any(key.source for state in providers for key in state.keys):
            from gateway.extras.renewal.keys import Renewals

            renewals = Renewals()
        if renewals is not None:
            renewals.follow(gateway.routes)

    def close() -> None:
        if renewals is not None:
            renewals.close()

    follow()
    return Started(reconfigure=follow, close=close)


def _fetch_keys(config: Config) -> Config:
    sources = (one for provider in config.providers.values() for one in provider.sources)
    if not any(one is not None and one.command for one in sources):
        return config
    import asyncio

    from gateway.extras.renewal.keys import fetch_all

    return asyncio.run(fetch_all(config))


def _find_formats() -> Formats:
    from gateway.extras.renewal.vertex import FORMATS

    return FORMATS


def _add_to_count_tokens() -> object:
    from gateway.dialects.exchanges import Exchange
    from gateway.extras.count_tokens.paths import COUNT_MESSAGES, CountPath
    from gateway.extras.renewal.vertex import VertexCountUpstream

    exchange = Exchange(COUNT_MESSAGES.exchange.caller, VertexCountUpstream())
    return CountPath(COUNT_MESSAGES.path, {"vertex": exchange}, {})


EXTRA = Extra(
    needs=("commands",),
    adds_to={"count_tokens": _add_to_count_tokens},
    key_places=("command:",),
    fetch_keys=_fetch_keys,
    dialects={
        "vertex": Dialect(
            "Anthropic's at Google", needs_limit=True, others="vertex_ai vertexai google_vertex"
        )
    },
    find_formats=_find_formats,
    start=_start,
)
