"""Fields of a service that make more of it than is counted: more outputs, larger ones, more inputs.

Each row of a service is refused unless the model allows it by name: see `billed`, whose rows hold for all
dialects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.dialects.wire.records import Target


def asks(value: object) -> bool:
    return value not in (None, [], {}, "", False)


def asks_more(value: object) -> bool:
    """Return whether a number, which is a text in a form, asks for more than one."""
    return asks(value) and value not in (0, 1, "0", "1")


@dataclass(frozen=True, slots=True)
class Billed:
    """A field that changes the provider's bill."""

    asks: Callable[[object], bool] = asks
    """Returns whether a value requests something that costs."""
    is_priced: Callable[[object, Target], bool] = lambda _value, _target: False
    """Returns whether the model has a price for the value."""
    advice: str = "Leave it out"
    """Advice for callers: what to send instead."""


def make_rows(
    names: tuple[str, ...], advice: str = "Leave it out", asks: Callable[[object], bool] = asks
) -> dict[str, Billed]:
    """Make a row for each of the names."""
    return dict.fromkeys(names, Billed(asks, advice=advice))


BAGS: Final = (
    *("extra_body", "google"),  # what Google reads beside OpenAI's fields
    # Ollama; Hugging Face, DashScope and Vertex; Google; Bedrock, Titan; SGLang; and what wraps those.
    *("options", "parameters", "config", "generation_config", "generationConfig"),
    *("inference_config", "inferenceConfig", "additional_model_request_fields"),
    *("additionalModelRequestFields", "text_generation_config", "textGenerationConfig"),
    *("image_generation_config", "imageGenerationConfig", "sampling_params", "sampling_parameters"),
    *("extra_params", "extra_parameters", "model_kwargs", "model_params", "params"),
)
"""Fields that hold other fields. What is counted or refused outside must not stand in them."""
_INPUTS: Final = (
    # As TEI (`inputs`), Cohere (`texts`, `images`), Voyage and Jina (`queries`), NVIDIA (`passages`),
    # vLLM (`messages`, `prompt_embeds`, `text_1`), Ollama (`prompt`) and Google (`instances`) call them.
    *("content", "contents", "documents", "image", "image_url", "images", "input", "inputs"),
    *("instances", "messages", "passages", "prompt", "prompt_embeds", "prompts", "queries"),
    *("query", "ssml", "text", "text_1", "text_2", "texts", "video", "videos"),
)


def other_inputs(first: str, *more: str) -> dict[str, Billed]:
    """Make the rows of all inputs but those that are counted; callers should use the first."""
    return make_rows(
        tuple(name for name in _INPUTS if name not in (first, *more)), f"Use '{first}'"
    )
