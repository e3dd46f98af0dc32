"""Fields of single services that make more of them than is counted: more outputs, larger ones, more inputs.

Each row is refused unless the model allows it by name: see `billed`, whose rows hold for all dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.dialects.records import Target


def asks(value: object) -> bool:
    return value not in (None, [], {}, "", False)


def _asks_more(value: object) -> bool:
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
    """What callers should do instead."""


def _rows(
    names: tuple[str, ...], advice: str = "Leave it out", asks: Callable[[object], bool] = asks
) -> dict[str, Billed]:
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


def _other_inputs(first: str, *more: str) -> dict[str, Billed]:
    """Make the rows of all inputs but those that are counted; callers should use the first."""
    return _rows(tuple(name for name in _INPUTS if name not in (first, *more)), f"Use '{first}'")


def _is_by_token(_value: object, target: Target) -> bool:
    """Return whether images are priced by their tokens, which the hold counts."""
    return not any(name.startswith("images") for name in target.prices.base.tools)


_MORE_IMAGES: Final = (
    # As fal and Replicate, Together, DeepInfra, Google (`sampleCount`) and diffusers call `n`.
    *("batch_count", "batch_size", "candidate_count", "n_iter", "num_images", "num_outputs"),
    *("num_images_per_prompt", "num_return_sequences", "num_samples", "number_of_images"),
    *("sample_count", "samples", "variations"),
)
_IMAGE_SIZES: Final = (
    # As Together, SiliconFlow (`image_size`), xAI (`resolution`) and OpenRouter call the size.
    *("hd", "height", "image_config", "image_size", "megapixels", "resolution", "upscale", "width"),
)
_IMAGE_WORK: Final = (
    # Charged by the step, the time, or the picture to begin with: Together, LocalAI (`step`, `file`),
    # Black Forest Labs, fal.
    *("control_image", "duration", "file", "image", "image_loras", "image_url", "image_urls"),
    *("images", "init_image", "input_image", "input_images", "loras", "mask", "num_frames"),
    *("num_inference_steps", "ref_images", "reference_images", "seconds", "step", "steps"),
)
_MORE_CHOICES: Final = ("n", "num_outputs", "num_return_sequences", "num_samples")

MULTIPLIED: Final[Mapping[str, Mapping[str, Billed]]] = {
    "completions": _other_inputs("prompt"),
    "embeddings": _other_inputs("input"),
    "images": {
        **_other_inputs("prompt"),
        **_rows(_MORE_IMAGES, "Use 'n'", _asks_more),
        **_rows(_IMAGE_SIZES, "Use 'size' and 'quality'"),
        **_rows(_IMAGE_WORK),
        "partial_images": Billed(is_priced=_is_by_token),
    },
    # `texts` is TEI's name of the documents. Callers send one of both.
    "rerank": _other_inputs("documents", "query", "texts"),
    # The last three are texts of several speakers.
    "speech": {
        **_other_inputs("input"),
        **_rows(("dialogue", "script", "segments")),
        **_rows(_MORE_CHOICES, asks=_asks_more),
    },
    # ElevenLabs and Deepgram charge for each channel.
    "transcripts": {
        **_rows(("multichannel", "use_multi_channel")),
        **_rows(BAGS),  # in a form, nothing says what is in them
        **_rows((*_MORE_CHOICES, "num_channels"), asks=_asks_more),
    },
}
"""The rows of each service, by their names."""
