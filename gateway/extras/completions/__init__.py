"""`/v1/completions`: OpenAI's older API, with which editors complete code.

Without it there are no models of `kind = "completion"`.

dialect     the API: requests, replies, streams, and the embedded provider's reply
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import IN_AND_OUT, Kind
from gateway.extension import Extra
from gateway.extras.services.multiplied import other_inputs

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


MULTIPLIED = other_inputs("prompt")
"""The fields that multiply a completion beyond what is counted."""


def _find_formats() -> Formats:
    from gateway.dialects.exchanges import Exchange
    from gateway.dialects.formats import Formats
    from gateway.extras.completions.dialect import CompletionsCaller, CompletionsUpstream

    return Formats(
        services=(Exchange(CompletionsCaller(), CompletionsUpstream()),),
        unserved={"/v1/completions/...": "use POST /v1/completions"},
    )


EXTRA = Extra(
    needs=("services",),
    kinds={"completion": Kind((IN_AND_OUT,), MULTIPLIED, "text_completion")},
    find_formats=_find_formats,
)
