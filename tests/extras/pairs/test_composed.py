"""Composed translations: what the second one refuses is named by the caller's own field: `composed.txt` has both."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.records import CompletionRequest, Target
from gateway.extras.pairs.composed import compose
from tests.support.formats import CALLERS, TRANSLATIONS, UPSTREAMS
from tests.support.rows import told_together

Json = dict[str, Any]


PATH: Final = Path(__file__).with_name("composed.txt")
LEAST: Final[dict[str, Json]] = {
    "messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"input": "Hi"},
}
REFUSING: Final = Target("theirs")
REFUSED: Final = frozenset({"bad", "high", 7})
REASON: Final = "Not here."


def refuse_words(field: Field) -> None:
    if isinstance(field.value, dict):
        for name in field.value:
            refuse_words(field[name])
    elif isinstance(field.value, list):
        for item in field.read_items():
            refuse_words(item)
    elif field.value in REFUSED:
        raise field.refuse(REASON)


def translate(request: CompletionRequest, _target: Target) -> Json:
    refuse_words(Field(request.body))
    return request.body


FUSSY: Final = replace(TRANSLATIONS["chat", "messages"], translate_request=translate)
PIVOT: Final = (CALLERS["chat"], UPSTREAMS["chat"])


def refuse(caller: str, **fields: Any) -> str:
    """Return the caller's field that a refusal names, which its message quotes."""
    composed = compose(TRANSLATIONS[caller, "chat"], FUSSY, PIVOT)
    exchange = Exchange(CALLERS[caller], UPSTREAMS["chat"], composed)
    request = exchange.caller.parse_request(json.dumps({"model": "ours", **fields}).encode())
    with pytest.raises(BadRequest) as caught:
        exchange.write_request(request, REFUSING)
    error = caught.value
    assert error.message == f"Unsupported value: '{error.param}'. {REASON}"
    assert error.code == "unsupported_value"
    assert error.param is not None
    return error.param


@pytest.mark.parametrize("caller", [one for one in LEAST if one in CALLERS])
def test_a_refusal_names_the_callers_own_field(caller: str) -> None:
    lines = [line for line in PATH.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    with told_together() as row:
        for asked, param in zip(lines[::2], lines[1::2], strict=True):
            name, _, fields = asked.partition(" ")
            if name == caller:
                with row(asked):
                    assert f"! {refuse(caller, **(LEAST[caller] | json.loads(fields)))}" == param


def test_what_the_pivot_itself_refuses_is_named_too() -> None:
    """Chat's own check of a request, between both translations."""
    outer = replace(TRANSLATIONS["messages", "chat"], translate_request=_write_no_text)
    exchange = Exchange(CALLERS["messages"], UPSTREAMS["chat"], compose(outer, FUSSY, PIVOT))
    data = json.dumps({"model": "m", **LEAST["messages"]}).encode()
    with pytest.raises(BadRequest) as caught:
        exchange.write_request(exchange.caller.parse_request(data), REFUSING)
    assert caught.value.param == "stop_sequences"


def _write_no_text(request: CompletionRequest, _target: Target) -> Json:
    return {"model": request.model, "messages": request.body["messages"], "stop": 1}
