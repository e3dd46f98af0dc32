"""The path at Google that counts tokens for Claude."""

from __future__ import annotations

from typing import Final

from gateway.dialects.exchanges import Exchange
from gateway.dialects.messages.caller import MessagesCaller
from gateway.extras.count_tokens.paths import COUNT_MESSAGES, CountPath
from gateway.extras.renewal.vertex import VertexUpstream


class _CountUpstream(VertexUpstream):
    path = "/models/count-tokens:rawPredict"
    is_free = True


COUNTER: Final = CountPath(
    COUNT_MESSAGES.path, {"vertex": Exchange(MessagesCaller(counting=True), _CountUpstream())}, {}
)
