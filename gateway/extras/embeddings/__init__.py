"""`/v1/embeddings`: vectors of texts.

Without it there are no models of `kind = "embedding"`.

dialect     OpenAI's API, which providers of the chat and responses dialects serve
demo        the embedded provider's reply
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import Kind, Pricing
from gateway.extension import Extra
from gateway.extras.services.multiplied import other_inputs

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats

MULTIPLIED = other_inputs("input")
"""The fields that multiply embeddings beyond what is counted."""
_KIND = Kind(
    (Pricing(frozenset({"input"})),),
    MULTIPLIED,
    "embed embeddings",
    one_model_as="vectors of two models do not mix",
)


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.embeddings.dialect import EmbeddingsCaller, EmbeddingsUpstream
    from gateway.extras.services.upstream import join_large

    return Formats(
        services=(join_large(EmbeddingsCaller(), EmbeddingsUpstream()),),
        unserved={"/v1/embeddings/...": "use POST /v1/embeddings"},
    )


EXTRA = Extra(needs=("services",), kinds={"embedding": _KIND}, find_formats=_find_formats)
