"""The reference of the API, as `GET /openapi.json` and as api.md, and scripts by which shells complete commands.

Without it callers have the other documents alone, and shells complete nothing.

records     a route as the reference describes it; other extras add theirs by `Extra.adds_to`
serving     the path, and the routes that it tells of
document    the document, in OpenAPI 3.1
pages       the same as Markdown
curl        a call as a command line
shapes      JSON Schema of values
static      a sentence and an example for each route, and what tests saw of them
verbs       scripts by which shells complete commands, and the command that prints them
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _start(gateway: Gateway) -> Started:
    from gateway.extras.reference.serving import start

    return start(gateway)


EXTRA = Extra(
    first_words={"completion": "Print what makes bash, zsh or fish complete the commands."},
    start=_start,
)
