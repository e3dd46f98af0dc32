"""Requests that are refused: `refused.txt` has their fields, and what is said of each.

    == chat over messages      requests of chat callers for messages providers
    {"n": 2}
    ! n: Unsupported value …   the field that is to blame, its code in brackets, and the words

Below the name of one dialect stands what its callers cannot send to any provider. To write the words
anew, after a look at what that would change:

    WRITE_REFUSED=1 python -m pytest tests/dialects/test_refused.py && git diff
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.base import Caller
from gateway.dialects.embeddings import EmbeddingsCaller
from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import CompletionRequest, Target
from gateway.errors import BadRequest
from tests.support.rows import told_together

PATH: Final = Path(__file__).with_name("refused.txt")
SECTIONS: Final = PATH.read_text(encoding="utf-8").split("== ")[1:]
SAID: Final = [{"role": "user", "content": "Hi"}]
LEAST: Final[dict[str, dict[str, Any]]] = {
    "chat": {"messages": SAID},
    "messages": {"messages": SAID, "max_tokens": 9},
    "responses": {"input": "Hi"},
    "embeddings": {"input": "Hi"},
}
TARGETS: Final = {
    "chat": Target("theirs"),
    "messages": Target("theirs", max_output_tokens=5000),
    "responses": Target("theirs", reasoning="effort"),
}
MAX_WORDS: Final = 300
"""Characters of what is said, whatever the caller sent."""


def send(section: str, fields: dict[str, Any]) -> object:
    dialect, _, provider = section.partition(" over ")
    body = {"model": "m", **LEAST[dialect], **fields}
    caller: Caller = EmbeddingsCaller() if dialect == "embeddings" else CALLERS[dialect]
    if not provider or dialect == "chat":
        request = caller.parse_request(orjson.dumps(body))
    else:  # what a translation refuses, the caller's own dialect may refuse before
        request = CompletionRequest(body, "m", False, True, 1, None, 0, 0)
    return provider and EXCHANGES[dialect][provider].write_request(request, TARGETS[provider])


def refuse(section: str, line: str) -> str:
    with pytest.raises(BadRequest) as caught:
        send(section, orjson.loads(line))
    error = caught.value
    assert str(error.param) in error.message
    assert len(error.message) < MAX_WORDS
    return f"! {error.param}{f' [{error.code}]' if error.code else ''}: {error.message}"


@pytest.mark.parametrize("text", SECTIONS, ids=[one.partition("\n")[0] for one in SECTIONS])
def test_what_is_refused_is_named_by_its_place(text: str) -> None:
    section, _, rest = text.partition("\n")
    lines = rest.split("\n")
    told = [refuse(section, line) for line in lines if line.startswith("{")]
    if "WRITE_REFUSED" in os.environ:
        words = iter(told)
        kept = [line for line in lines if not line.startswith("! ")]
        new = [f"{line}\n{next(words)}" if line.startswith("{") else line for line in kept]
        whole = PATH.read_text(encoding="utf-8")
        PATH.write_text(whole.replace(text, "\n".join([section, *new])), encoding="utf-8")
    with told_together() as row:
        for line, words_then, words_now in zip(
            [line for line in lines if line.startswith("{")],
            [line for line in lines if line.startswith("! ")],
            told,
            strict=True,
        ):
            with row(line):
                assert words_now == words_then
