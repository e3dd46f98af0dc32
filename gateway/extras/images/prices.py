"""The price of an image, by its size and quality."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import name_image
from gateway.base.prices import BillOptions
from gateway.dialects.wire.jsonbytes import get_text
from gateway.dialects.wire.records import Json

MAX_CUTS: Final = 1000
"""The most images of a reply, as they are searched for one by one."""


_KEY: Final = b'"b64_json"'
_CONTENT: Final = re.compile(_KEY + rb'\s*:\s*"')
"""The key of an image. Inside a string its quotes would be escaped; base64 has none."""
_EMPTY: Final = b'"b64_json":""'


_SIZE: Final = re.compile(r"[0-9]+x[0-9]+")


def fill_images(text: bytes, contents: Sequence[bytes]) -> bytes:
    """Put the base64 of images that were cut out into their places. Raises UndeliverableReply."""
    pieces = text.split(_EMPTY)
    if len(pieces) != len(contents) + 1:  # a key was repeated, or an image was in the hidden bill
        raise UndeliverableReply("The upstream's reply has an image in no place of its own.")
    filled = [_EMPTY[:-1] + content + b'"' for content in contents]
    return b"".join(one for pair in zip(pieces, [*filled, b""], strict=True) for one in pair)


def cut_images(text: bytes) -> tuple[bytes, list[bytes]]:
    """Return a reply without its images' base64, and the base64. Raises UpstreamError for too many."""
    pieces: list[bytes] = []
    contents: list[bytes] = []
    begin = at = keys = 0
    while (at := text.find(_KEY, at)) >= 0:
        keys += 1
        if keys > MAX_CUTS:
            raise UpstreamError("The upstream's reply has too many images.")
        key = _CONTENT.match(text, at)
        end = -1 if key is None else text.find(b'"', key.end())
        if key is None or end < 0:
            at += len(_KEY)
            continue
        pieces.append(text[begin : key.end()])
        contents.append(text[key.end() : end])
        begin = at = end
    pieces.append(text[begin:])
    return b"".join(pieces), contents


def find_images(tools: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return the priced tools that are images: name, size and quality. A "" stands for any."""
    found = []
    for name in tools:
        kind, *parts = name.split("_")
        if kind == "images" and len(parts) <= 2:  # noqa: PLR2004 - a size and a quality
            size = next((one for one in parts if _SIZE.fullmatch(one)), "")
            quality = next((one for one in parts if one != size), "")
            if name == name_image(size, quality):
                found.append((name, size, quality))
    return found


def fits(image: tuple[str, str], its_size: str, its_quality: str) -> bool:
    """Return whether a price (`its_…`) may apply to an image; "" stands for any."""
    size, quality = image
    return (not size or its_size in ("", size)) and (not quality or its_quality in ("", quality))


def choose_image(options: BillOptions, served: tuple[str, str]) -> str:
    """Choose the price of an image by the reply's size and quality, or else by the request's.

    The most specific matching price applies, and the first of equally specific ones. If none matches, the
    price of the hold applies.
    """
    size, quality = image = served[0] or options.image[0], served[1] or options.image[1]
    fit = [
        (bool(size and its_size) + bool(quality and its_quality), name)
        for name, its_size, its_quality in options.image_prices
        if fits(image, its_size, its_quality)
    ]
    if not fit:
        return next(iter(options.tool_calls))
    return max(fit, key=lambda one: one[0])[1]  # `max` returns the first of equal ones


def read_image(body: Json) -> tuple[str, str]:
    """Return the size and the quality in a request or a reply; "" if not stated."""
    size, quality = get_text(body, "size"), get_text(body, "quality")
    return "" if size == "auto" else size, "" if quality == "auto" else quality
