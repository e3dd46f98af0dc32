"""The fields that make more pictures, or larger ones, than are counted."""

from __future__ import annotations

from typing import Final

from gateway.dialects.wire.billed import Billed
from gateway.dialects.wire.records import Target
from gateway.extras.services.multiplied import asks_more, make_rows, other_inputs


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
MULTIPLIED: Final = {
    **other_inputs("prompt"),
    **make_rows(_MORE_IMAGES, "Use 'n'", asks_more),
    **make_rows(_IMAGE_SIZES, "Use 'size' and 'quality'"),
    **make_rows(_IMAGE_WORK),
    "partial_images": Billed(is_priced=_is_by_token),
}
