"""Cohere's SDK: both its clients rank over the gateway, and say what was wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.clients import kit
from tests.support.replies import json_reply
from tests.support.stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SCRIPT: Final = """
import json, os, cohere

def rank(client, model, key=os.environ["KEY"]):
    co = client(api_key=key, base_url=os.environ["BASE"])
    return co.rerank(model=model, query="q", documents=["a", "b"], top_n=1)

told = []
for client in (cohere.ClientV2, cohere.Client):
    made = rank(client, os.environ["MODEL"])
    told.append([made.results[0].index, made.meta.billed_units.search_units])
    for error, *asked in ((cohere.BadRequestError, "nope"), (cohere.UnauthorizedError, "nope", "bad")):
        try:
            rank(client, *asked)
        except error as caught:
            told.append(caught.body["error"]["code"])
print("TOLD", json.dumps(told))
"""


async def test_ranks(stage: Stage, tmp_path: Path) -> None:
    results = [{"index": 1, "relevance_score": 0.9}]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
    stage.alpha.always(json_reply({"id": "r", "results": results, "meta": meta}))
    environment = {
        "BASE": stage.gateway.base_url.removesuffix("/v1"),
        "KEY": stage.key,
        "MODEL": stage.fresh("rerank"),
    }
    out = await kit.run_python(SCRIPT, tmp_path, environment)
    told = json.loads(out.rpartition("TOLD ")[2])
    assert told == [[1, 1.0], "model_not_found", "invalid_api_key"] * 2
    assert [one.json["top_n"] for one in stage.alpha.exchanges] == [1, 1]
