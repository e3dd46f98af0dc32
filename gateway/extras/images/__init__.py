"""`/v1/images/generations`: pictures from texts.

Without it there are no models of `kind = "image"`.

settings    how their prices are read
dialect     OpenAI's API of image generation, and the embedded provider's reply
prices      the price of an image, by its size and quality
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.dialects.wire.billed import Billed
from gateway.dialects.wire.records import IN_AND_OUT, Kind, Pricing, Target
from gateway.extension import Extra
from gateway.extras.services.multiplied import asks_more, make_rows, other_inputs

if TYPE_CHECKING:
    from gateway.base.prices import PriceList
    from gateway.dialects.formats import Formats


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
"""The fields that make more images, or larger ones, than are counted."""


def _find_reader() -> Callable[..., PriceList]:
    from gateway.extras.images.settings import read_image_prices

    return read_image_prices


_KIND = Kind(
    (Pricing(frozenset(), mark="price_image"), IN_AND_OUT),
    MULTIPLIED,
    "image_generation dalle picture",
    find_reader=_find_reader,
)


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.images.dialect import ImagesCaller, ImagesUpstream
    from gateway.extras.services.upstream import join_large

    return Formats(services=(join_large(ImagesCaller(), ImagesUpstream()),))


EXTRA = Extra(needs=("services",), kinds={"image": _KIND}, find_formats=_find_formats)
