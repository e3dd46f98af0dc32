"""Parts of items, as OpenAI's own models have them."""

from __future__ import annotations

from openai.types.responses import ResponseOutputRefusal, ResponseOutputText
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from gateway.dialects.responses_over_chat.reply import make_part
from gateway.dialects.responses_over_chat.stream import FORMS
from gateway.dialects.to_chat import Kind
from tests.support.rows import each_row

MODELS: dict[Kind, type[BaseModel]] = {
    "reasoning": Summary,
    "refusal": ResponseOutputRefusal,
    "text": ResponseOutputText,
}


@each_row("kind", FORMS)
def test_a_part_is_what_the_models_say(kind: Kind) -> None:
    part = MODELS[kind].model_validate(make_part(kind, "a"), strict=True)
    assert getattr(part, FORMS[kind].key) == "a"
    assert make_part(kind, "a")[FORMS[kind].key] == "a"
