"""The image generation API (OpenAI's). Providers' replies and events pass as they are.

A reply has megabytes of base64. They are never parsed, but cut out before the rest is read. A
stream has a partial picture in each event, and the usage in its last one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import orjson

from gateway.base.errors import BadRequest, UpstreamError
from gateway.base.money import Tokens
from gateway.base.prices import BillOptions
from gateway.base.usage import UNBOUNDED, Expected, Reported, count_text, estimate_tokens
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.billed import read_bill_options
from gateway.dialects.wire.failures import check_error
from gateway.dialects.wire.jsonbytes import (
    dumps_lenient,
    get_list,
    get_object,
    hide_bill,
    maybe_loads,
)
from gateway.dialects.wire.known import has_files, make_fields
from gateway.dialects.wire.passing import find_last_usage
from gateway.dialects.wire.pipelines import EventReader
from gateway.dialects.wire.records import CompletionRequest, Inputs, Json, ReplyContext, Target
from gateway.dialects.wire.sse import render_event
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.dialects.wire.usage import read_openai_usage
from gateway.extras.images import MULTIPLIED
from gateway.extras.images.prices import (
    choose_image,
    cut_images,
    fill_images,
    find_images,
    fits,
    read_image,
)
from gateway.extras.services.upstream import LastEventStream, ServiceUpstream

MAX_N: Final = 10
"""Images of a request: OpenAI's own limit."""
MAX_FRAME_BYTES: Final = 1 << 20
"""Bytes of a reply without its images, which are parsed as JSON: replies have some hundred."""
_PARTIAL: Final = b".partial_image"
_COMPLETED: Final = "image_generation.completed"
"""The type of an event with a whole image."""
_HEAD_BYTES: Final = 256
"""The first bytes of an event, which show its type if it is too large to be read."""
_SERVED: Final = re.compile(rb'"(size|quality)"\s*:\s*"([a-z0-9]{1,64})"')
_PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""The embedded provider's picture, of one pixel."""


class ImagesCaller(Caller):
    """A `Caller` of the image generation API."""

    name = "images"
    path = "/images/generations"
    kind = "image"
    operation = "generate_content"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model", "prompt"))
        return CompletionRequest(
            body,
            body["model"],
            body.get("stream") is True,
            n=(body.get("n") or 1) * (1 + (body.get("partial_images") or 0)),
            more_tokens=UNBOUNDED if has_files(body) else 0,
            inputs=Inputs(1, estimate_tokens(count_text(body["prompt"]))),
        )


FIELDS: Final = make_fields(
    {
        "model": fields.check_string,
        "prompt": fields.check_string,
        "n": fields.check_integer(1, MAX_N),
        "size": fields.check_string,
        "quality": fields.check_string,
        "stream": fields.check_boolean,
        "partial_images": fields.check_integer(0, MAX_N),
    },
    MULTIPLIED,
)


class ImagesUpstream(ServiceUpstream, EventUpstream):
    """An `Upstream` that makes images."""

    name = "images"
    path = "/images/generations"
    reply_name = "a list of images"
    multiplied = MULTIPLIED

    def demonstrate(self, body: Json) -> Iterator[bytes]:
        return _make_images(body)

    def read_bill_options(self, body: Json, data: bytes, target: Target) -> BillOptions:
        """Read the options that change the bill, such as the image's price. Raises BadRequest without one."""
        options = read_bill_options(body, data, target)
        named = find_images(target.prices.base.tools)
        if not named:  # a model whose tokens are priced
            own = target.prices.base.image_output is not None
            return replace(options, media=("image_output",)) if own else options
        image, tools = read_image(body), target.prices.base.tools
        fit = [one for one, *told in named if fits(image, *told)]
        if not fit:
            raise BadRequest(
                "This model has no price here for images of this 'size' and 'quality'. Choose others,"
                " or ask whoever runs this gateway.",
                param="size" if image[0] else "quality",
                code="unsupported_value",
            )
        # The hold is for the most expensive image that the provider may choose. The charge never exceeds it.
        dearest = max(fit, key=tools.__getitem__)
        prices = tuple(one for one in named if tools[one[0]] <= tools[dearest])
        calls = {dearest: body.get("n") or 1}
        return replace(options, tool_calls=calls, image=image, image_prices=prices)

    def parse(self, text: bytes) -> object:
        """Parse a reply with its images cut out."""
        frame, _ = cut_images(text)
        return maybe_loads(frame) if len(frame) <= MAX_FRAME_BYTES else find_last_usage(text) or {}

    def check_reply(self, reply: Json) -> bool:
        images = get_list(reply, "data")
        return images != [] and all(type(one) is dict for one in images)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        images = len(get_list(reply, "data"))
        return _report(self.find_usage(reply), images, expected, read_image(reply))

    def has_content(self, reply: Json) -> bool:  # noqa: ARG002 - there is an image
        return True

    def count_text(self, reply: Json) -> int:
        return PICTURE_BYTES * len(reply["data"])

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002
        """Return the provider's bytes, edited if they contain a model or a bill."""
        shown = hide_bill(reply, dumps_lenient(reply))
        if type(shown.get("model")) is str:
            shown = {**shown, "model": context.request.model}
        if shown == reply:
            return text
        return fill_images(dumps_lenient(shown), cut_images(text)[1])

    def replay_reply(self, text: bytes, reply: Json) -> bytes:
        """Write an event for each image; the last one has the usage."""
        head = {name: reply[name] for name in reply if name not in ("data", "usage")}
        events = [{**head, **image, "type": _COMPLETED} for image in reply["data"]]
        if "usage" in reply:
            events[-1]["usage"] = reply["usage"]
        return fill_images(b"".join(map(render_event, events)), cut_images(text)[1])

    def open_stream(self, context: ReplyContext) -> ImageStream:
        return ImageStream(context)

    def open_reader(self, context: ReplyContext) -> ImageReader:  # noqa: ARG002 - chat's needs it
        return ImageReader()


def _report(
    usage: Json | None, images: int, expected: Expected, served: tuple[str, str]
) -> Reported:
    """Report images if they have prices, else tokens.

    At least one image is reported, and never more than were requested.
    """
    options = expected.options
    if options.image_prices:
        # Tokens have no price here, so they are not estimated.
        tokens, image = Tokens(max(expected.input_tokens, 1)), choose_image(options, served)
        count = min(max(images, 1), sum(options.tool_calls.values()))
        calls = {**dict.fromkeys(options.tool_calls, 0), image: count}
        return Reported(tokens, True, True, calls, guessed=not images)
    report = read_openai_usage(usage, None, expected)
    told = get_object(usage or {}, "output_tokens_details")
    if options.media and report.has_output and told.keys().isdisjoint(_OUTPUTS):
        # OpenAI's API does not say which tokens of the output are images: all are, then.
        report.tokens.media = {**report.tokens.media, "image_output": report.tokens.output}
    return report


_OUTPUTS: Final = frozenset({"audio_tokens", "image_tokens", "text_tokens"})
"""The details of an output that tell its kinds of tokens."""


class ImageReader(EventReader):
    """An `EventReader` of partial and whole images. Only the end of the body ends the stream."""

    __slots__ = ("_images", "_served", "is_partial")

    def __init__(self) -> None:
        super().__init__()
        self._images = 0
        """The number of whole images so far."""
        self._served = ("", "")
        """The size and the quality of the latest image."""
        self.is_partial = False
        """The oversized event that is passing has a partial image."""

    @property
    def finished(self) -> bool:
        return self._images > 0

    def _read_object(self, body: Json, name: str) -> Json:
        check_error(body, name)
        if type(body.get("type")) is not str:
            raise UpstreamError("The upstream sent a stream event without a type.")
        self.begun = True
        if body["type"].endswith(".completed"):
            self._images += 1
            self._served = read_image(body)
        self._note_usage(body.get("usage"))
        return body

    def read_end(self, end: bytes, usage: Json | None) -> None:
        self.begun = True
        if not self.is_partial:
            self._images += 1
            # Size and quality come after the image, if stated. Inside a string their quotes would be escaped.
            self._served = read_image({k.decode(): v.decode() for k, v in _SERVED.findall(end)})
        self._note_usage(usage)

    def read_report(self, expected: Expected) -> Reported:
        return _report(self.usage, self._images, expected, self._served)

    def _note_usage(self, usage: object) -> None:
        if type(usage) is dict:
            self.usage = usage


class ImageStream(LastEventStream):
    """A `Pipeline`: the upstream's events as they are."""

    __slots__ = ("_is_within",)

    _reader: ImageReader

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context, ImageReader())
        self._is_within = False
        """An oversized event is passing, and its type was read."""

    def _pass_oversized(self, piece: bytes, *, is_last: bool) -> None:
        if not self._is_within:
            self._reader.is_partial = _PARTIAL in piece[:_HEAD_BYTES]
        self._is_within = not is_last
        super()._pass_oversized(piece, is_last=is_last)

    def _edit_event(self, block: bytes, body: Json) -> bytes:  # noqa: ARG002 - it names no model
        self._begun = True
        self._passed_bytes += PICTURE_BYTES
        return block


def _make_images(body: Json) -> Iterator[bytes]:
    """Make the embedded provider's reply to a request for images, or its stream."""
    created = int(time.time())
    if not body.get("stream"):
        images = [{"b64_json": _PNG}] * (body.get("n") or 1)
        yield orjson.dumps({"created": created, "data": images})
        return
    for kind in ("image_generation.partial_image", "image_generation.completed"):
        event = {"type": kind, "b64_json": _PNG, "created_at": created}
        yield b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(event))
