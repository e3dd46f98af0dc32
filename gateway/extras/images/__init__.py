"""`/v1/images/generations`: pictures from texts.

Without it there are no models of `kind = "image"`.

dialect     OpenAI's API of image generation, and what the embedded provider answers
prices      the price of each picture, by its size and quality
multiplied  the fields that make more of it than is counted
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import IN_AND_OUT, Kind, Pricing
from gateway.extension import Extra
from gateway.extras.images.multiplied import MULTIPLIED

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats

_KIND = Kind(
    (Pricing(frozenset(), mark="price_image"), IN_AND_OUT),
    MULTIPLIED,
    "image_generation dalle picture",
)


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.images.dialect import ImagesCaller, ImagesUpstream
    from gateway.extras.services.upstream import join_large

    return Formats(services=(join_large(ImagesCaller(), ImagesUpstream()),))


EXTRA = Extra(needs=("services",), kinds={"image": _KIND}, find_formats=_find_formats)
