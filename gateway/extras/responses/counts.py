"""The path that counts the tokens of a request to `/v1/responses`."""

from __future__ import annotations

from typing import Final

from gateway.dialects.exchanges import Exchange
from gateway.extras.count_tokens.paths import CountPath
from gateway.extras.responses.caller import ResponsesCaller
from gateway.extras.responses.upstream import ResponsesUpstream

PATH: Final = "/responses/input_tokens"
COUNTER: Final = CountPath(
    PATH,
    {"responses": Exchange(ResponsesCaller(), ResponsesUpstream(PATH, is_free=True))},
    {"object": "response.input_tokens"},
)
