"""Images: their base64 is never parsed, they are priced by size and quality, their streams pass."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import FREE
from gateway.base.prices import BillOptions, PriceList
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import ReplyContext, Target
from gateway.extras.images.prices import MAX_CUTS, cut_images
from tests.dialects.chat.kit import dump
from tests.support.formats import SERVICES
from tests.support.replies import json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.sdks import Clients
from tests.support.stage import Stage

IMAGES: Final = SERVICES["images"]

USAGE: Final = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
PRICES: Final = {"images_1024x1024_high": 5, "images_1024x1024": 2, "images_low": 1}
LARGE: Final = "QUJD" * 500_000


def make_context(prices: dict[str, int] | None = None, **asked: Any) -> ReplyContext:
    request = IMAGES.caller.parse_request(dump({"model": "ours", "prompt": "a cat"} | asked))
    most = 0 if prices else 10**6
    wishes = (
        IMAGES.upstream.read_bill_options(request.body, b"", make_target(prices))
        if prices
        else BillOptions()
    )
    expected = Expected(2, UsageLimits(10**6, most, most), wishes)
    return ReplyContext(request, "req", expected)


def make_target(prices: dict[str, int]) -> Target:
    base = FREE.__class__(0, 0, 0, 0, tools=prices)
    return Target("theirs", prices=PriceList(base, ()))


@each_row("text", [LARGE, "", "QQ=="])
def test_a_reply_passes_byte_for_byte(text: str) -> None:
    reply = {"created": 1, "data": [{"b64_json": text, "revised_prompt": 'a "b64_json": cat'}] * 3}
    body = json.dumps(reply | {"usage": USAGE}, indent=1).encode()
    made = IMAGES.read_reply(body, make_context())
    assert made.body == body
    assert (made.metered.tokens.output, made.metered.estimated) == (7, False)
    frame, contents = cut_images(body)
    assert contents == [text.encode()] * 3
    assert len(frame) < 1000


def test_model_and_bill_are_edited_around_the_images() -> None:
    reply = {
        "model": "theirs",
        "data": [{"b64_json": LARGE}, {"url": "https://x"}, {"b64_json": ""}],
    }
    body = dump(reply | {"usage": USAGE | {"cost": 0.1}})
    made = IMAGES.read_reply(body, make_context())
    assert json.loads(made.body) == reply | {"model": "ours", "usage": USAGE}


@each_row(
    "body",
    [
        b'{"model":"theirs","data":[{"b64_json":"a","b64_json":"b"}]}',
        b'{"data":[{"b64_json":"a"}],"usage":{"cost":{"b64_json":"b"}}}',
    ],
)
def test_a_reply_whose_images_have_no_places_is_charged_and_not_passed(body: bytes) -> None:
    made = IMAGES.read_reply(body, make_context({"images": 1}))
    assert type(made.failure) is UndeliverableReply
    assert (made.body, made.metered.tool_calls) == (b"", {"images": 1})


def test_images_are_counted_where_they_have_prices_and_else_estimated() -> None:
    body = dump({"data": [{"b64_json": "QQ=="}] * 3})
    priced = IMAGES.read_reply(body, make_context({"images_low": 4}, n=4, quality="low")).metered
    assert (priced.tool_calls, priced.estimated) == ({"images_low": 3}, False)
    estimated = IMAGES.read_reply(body, make_context()).metered
    assert (estimated.tokens.output, estimated.estimated) == (3 * 1600, True)


@each_row(
    "body",
    [
        b'{"data":[{"url":"%b"}]}' % (b"a" * (1 << 20)),
        b'{"data":[' + b'{"b64_json":"a"},' * MAX_CUTS + b'{"b64_json":1}]}',
    ],
)
def test_what_is_no_list_of_images_is_an_error(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        IMAGES.read_reply(body, make_context())


@each_row("text", ["QQ==", LARGE])
def test_a_stream_says_what_an_image_is(text: str) -> None:
    pipeline = IMAGES.open_stream(make_context(PRICES, stream=True))
    pipeline.feed(frame("completed", text, size="1024x1024", quality="medium"))
    pipeline.end()
    assert pipeline.measure().tool_calls == {"images_1024x1024": 1}


def frame(kind: str, text: str, **more: Any) -> bytes:
    event = {"type": f"image_generation.{kind}", "b64_json": text} | more
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), dump(event))


@each_row("size", [1000, 70_000, 1 << 24])
@each_row("text", ["QQ==", LARGE])
def test_a_stream_passes_and_its_last_line_waits_for_the_charge(text: str, size: int) -> None:
    data = frame("partial_image", text) + frame("completed", text, usage=USAGE)
    if len(data) // size > 500:
        return
    pipeline = IMAGES.open_stream(make_context(stream=True))
    out = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert pipeline.begun
    assert pipeline.mid_event, "no comment may come into what waits"
    out += pipeline.end()
    assert pipeline.complete
    assert out == data[:-2]
    assert out + pipeline.take_last() == data
    metered = pipeline.measure()
    assert (metered.tokens.input, metered.tokens.output, metered.estimated) == (11, 7, False)


@each_row("text", ["QQ==", LARGE])
@each_row("size", [100_000, 1 << 24])
def test_a_partial_image_waits_for_nothing_and_is_no_whole_one(text: str, size: int) -> None:
    data = frame("partial_image", text) * 2
    pipeline = IMAGES.open_stream(make_context({"images": 1}, stream=True))
    out = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert out == data
    assert (pipeline.end(), pipeline.complete, pipeline.begun) == (b"", False, True)
    metered = pipeline.measure()
    assert (metered.tool_calls, metered.estimated) == ({"images": 1}, True)


@each_row(("padding", "is_whole"), [(100, False), (300, True)])
def test_the_type_of_a_large_event_stands_at_its_head(padding: int, is_whole: bool) -> None:
    """A type beyond an event's first 256 bytes is not read: the event counts as the last one."""
    event = {"a": "x" * padding, "type": "image_generation.partial_image", "b64_json": LARGE}
    pipeline = IMAGES.open_stream(make_context({"images": 1}, stream=True))
    data = b"data: %b\n\n" % dump(event)
    for at in range(0, len(data), 100_000):
        pipeline.feed(data[at : at + 100_000])
    pipeline.end()
    assert pipeline.complete is is_whole


@each_row("cut", [1, 3, 40])
def test_a_stream_that_breaks_off_is_not_complete(cut: int) -> None:
    for text in ("QQ==", LARGE):
        data = frame("completed", text)[:-cut]
        pipeline = IMAGES.open_stream(make_context(stream=True))
        pipeline.feed(data)
        pipeline.end()
        assert pipeline.complete is (cut == 1 and text == "QQ==")


async def test_the_sdk_gets_pictures(stage: Stage, clients: Clients) -> None:
    stage.alpha.play(json_reply({"created": 1, "data": [{"b64_json": "QUJD"}] * 2}))
    made = await clients.chat.images.generate(model=stage.fresh("image"), prompt="a cat", n=2)
    assert [one.b64_json for one in made.data or []] == ["QUJD"] * 2
    part = {"type": "image_generation.partial_image", "b64_json": "QQ==", "partial_image_index": 0}
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    whole = {"type": "image_generation.completed", "b64_json": "QUJD", "usage": usage}
    stage.alpha.play(sse_reply([part, whole], done=False))
    model = stage.fresh("image-tokens")
    stream = await clients.chat.images.generate(
        model=model, prompt="a cat", stream=True, partial_images=1
    )
    assert [one.b64_json async for one in stream] == ["QQ==", "QUJD"]


async def test_the_demo_draws(clients: Clients) -> None:
    made = await clients.chat.images.generate(model="image-demo/0", prompt="a cat")
    assert base64.b64decode((made.data or [])[0].b64_json or "").startswith(b"\x89PNG")
