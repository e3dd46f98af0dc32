"""`POST /v1/messages/count_tokens`, and the like of other dialects: counts a request's tokens for free.

Without this extra there are no such paths, and agents estimate the length of a conversation themselves.

paths    the paths, and the providers that count; other extras add paths, as `CountPath`
serving  the reply: a provider's count, or an estimate
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.extension import Started


def _start(gateway: Gateway) -> Started:  # noqa: ARG001 - as `Extra.start` is called
    from gateway.extras.count_tokens.serving import start

    return start()


EXTRA = Extra(start=_start)
