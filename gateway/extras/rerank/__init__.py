"""`/v1/rerank` and `/v2/rerank`: documents in the order of their relevance.

Without it there are no models of `kind = "rerank"`.

dialect     the API of Cohere and Jina, and the embedded provider's reply
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import Kind, Pricing
from gateway.extension import Extra, Started, find_formats
from gateway.extras.services.multiplied import other_inputs

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.dialects.formats import Formats


# `texts` is TEI's name of `documents`. Callers send one of the two.
MULTIPLIED = other_inputs("documents", "query", "texts")
"""The fields that multiply a rerank beyond what is counted."""


def _find_formats() -> Formats:
    from gateway.dialects.exchanges import Exchange
    from gateway.dialects.formats import Formats
    from gateway.extras.rerank.dialect import RerankCaller, RerankUpstream

    return Formats(
        services=(Exchange(RerankCaller(), RerankUpstream()),),
        unserved={"/v1/rerank/...": "use POST /v1/rerank"},
    )


def _start(gateway: Gateway) -> Started:  # noqa: ARG001 - the handler gets the gateway with each call
    from gateway.api.completions import serve_completion
    from gateway.api.routes import Endpoint

    callers = tuple(one for one in find_formats().every_caller if one.kind == "rerank")
    # The path that Cohere's SDK uses, whose base address has no version.
    endpoint = Endpoint("POST", "/v2/rerank", "charged", serve_completion, callers)
    return Started(endpoints=(endpoint,))


EXTRA = Extra(
    needs=("services",),
    kinds={"rerank": Kind((Pricing(frozenset()),), MULTIPLIED, "reranker reranking")},
    find_formats=_find_formats,
    start=_start,
)
