"""Parts of items, as OpenAI's own models have them."""

from __future__ import annotations

from openai.types.responses import ResponseOutputRefusal, ResponseOutputText
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from gateway.dialects.responses_over_chat.parts import FORMS, PartKind, make_part
from tests.support.rows import each_row

MODELS: dict[PartKind, type[BaseModel]] = {
    "reasoning": Summary,
    "refusal": ResponseOutputRefusal,
    "text": ResponseOutputText,
}


@each_row("kind", FORMS)
def test_a_part_is_what_the_models_say(kind: PartKind) -> None:
    part = MODELS[kind].model_validate(make_part(kind, "a"), strict=True)
    assert getattr(part, FORMS[kind].key) == "a"
    assert make_part(kind, "a")[FORMS[kind].key] == "a"
