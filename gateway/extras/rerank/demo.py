"""The embedded provider's answer: documents in the order of the query's words in them."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from gateway.dialects.wire.records import Json
from gateway.upstream.demo import count_tokens


def make_ranks(body: Json) -> Iterator[bytes]:
    """Make the reply to a rerank request: relevance is the share of the query's words in a document."""
    documents = body.get("documents") or body["texts"]
    wanted = set(body["query"].lower().split())
    results = []
    for index, document in enumerate(documents):
        said = document if isinstance(document, str) else str(document.get("text", ""))
        share = len(wanted.intersection(said.lower().split())) / (len(wanted) or 1)
        results.append({"index": index, "relevance_score": share})
    results.sort(key=lambda one: -one["relevance_score"])
    usage = {"total_tokens": sum(map(count_tokens, map(str, documents)))}
    top = results[: body.get("top_n")]
    yield orjson.dumps({"model": body["model"], "results": top, "usage": usage})
