"""Images and audio that a model made: carried where the caller's dialect has a place, else an error.

A reply that cannot be delivered is charged, like any other that was made.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from gateway.dialects import to_chat
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.errors import UndeliverableReply
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, Json
from tests.dialects.responses_over_chat.kit import kinds_of
from tests.dialects.vendor_bytes import (
    add_up,
    chunks,
    completion,
    hear,
    parse,
    read,
    response,
    response_events,
)
from tests.support.rows import each_row

PNG: Final = "iVBORw0KGgo="
JPEG: Final = "/9j/4AAQSkZJ"
USED: Final = Tokens(9, output=30)


def picture(url: str, **fields: Any) -> Json:
    return {"type": "image_url", "image_url": {"url": url}, **fields}


def draw(data: str, kind: str = "png") -> Json:
    return picture(f"data:image/{kind};base64,{data}")


def item(identity: str, data: str, kind: str = "png") -> Json:
    head = {"id": identity, "type": "image_generation_call", "status": "completed"}
    return {**head, "result": data, "output_format": kind}


IMAGES: Final = [draw(PNG), draw(JPEG, "jpeg")]
RECORDING: Final = {"id": "audio_1", "data": "UklG", "transcript": "Hello.", "expires_at": 1}
HELD: Final = [item("ig_request-1_1", PNG), item("ig_request-1_2", JPEG, "jpeg")]
"""The same images as a Responses caller gets them."""
SAID: Final = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Here:", "annotations": [], "logprobs": []}],
}
MADE: Final = (
    {**item("ig_1", PNG), "size": "1024x1024", "revised_prompt": "A cat."},
    {key: held for key, held in item("ig_2", PNG).items() if key != "output_format"},
    item("ig_3", JPEG, "jpeg"),
    {**item("ig_4", ""), "status": "failed", "result": None},
)
"""Items as OpenAI sends them; the last one failed."""


def write_item(index: int, whole: Json) -> list[Json]:
    """Write the events of an image, with a preview, as OpenAI does."""
    where = {"output_index": index, "item_id": whole["id"]}
    begun = {**whole, "status": "in_progress", "result": None}
    kind = "response.image_generation_call"
    preview = {"partial_image_index": 0, "partial_image_b64": "AAAA"}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        {"type": f"{kind}.in_progress", **where},
        {"type": f"{kind}.generating", **where},
        {"type": f"{kind}.partial_image", **where, **preview},
        {"type": f"{kind}.completed", **where},
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


DRAWN: Final = response_events(
    *(one for index, whole in enumerate(MADE) for one in write_item(index, whole)), output=MADE
)


def check_undeliverable(
    provider: str, reply: bytes, data: bytes, caller: str, charged: Tokens = USED
) -> str:
    """Check that a reply and a stream fail with the same words, and return the words.

    The reply is charged as the provider tells, the stream as `charged`.
    """
    made = read(caller, provider, reply)
    assert isinstance(made.failure, UndeliverableReply)
    assert (made.body, made.metered.tokens, made.metered.estimated) == (b"", USED, False)
    played = hear(caller, provider, data)
    assert (played.complete, played.failure) == (False, made.failure.message)
    assert played.tokens == charged
    return made.failure.message


def test_images_of_a_reply_become_items() -> None:
    said = {"content": "Here:", "images": IMAGES, "audio": None}
    reply = parse("responses", read("responses", "chat", completion(said)).body)
    assert reply["output"][1:] == HELD


@each_row(
    "deltas",
    [
        [{"content": "Here:"}, {"images": IMAGES[:1]}, {"images": IMAGES[1:]}],
        [{"content": "Here:", "images": [{**one, "index": 0} for one in IMAGES]}],  # OpenRouter
        [{"content": [{"type": "text", "text": "Here:"}, *IMAGES]}],
    ],
)
def test_images_of_a_stream_become_items(deltas: list[Json]) -> None:
    played = hear("responses", "chat", chunks(*deltas))
    assert add_up("responses", played)["output"][1:] == HELD
    kinds = kinds_of(played.out)
    begun, ended = kinds.index("output_item.done"), len(kinds) - 1
    drawn = [f"image_generation_call.{stage}" for stage in ("in_progress", "generating")]
    drawn += ["image_generation_call.completed", "output_item.done"]
    assert kinds[begun:ended] == ["output_item.done", *["output_item.added", *drawn] * 2]


def test_text_may_go_on_behind_an_image() -> None:
    data = chunks({"images": IMAGES[:1]}, {"content": "This"}, {"content": " is it."})
    first, second = add_up("responses", hear("responses", "chat", data))["output"]
    assert (first["result"], second["content"][0]["text"]) == (PNG, "This is it.")


def test_an_image_that_is_last_is_whole_though_the_reply_is_cut() -> None:
    """Its schema has no status for less."""
    said = {"images": IMAGES[:1]}
    whole = parse("responses", read("responses", "chat", completion(said, "length")).body)
    heard = add_up("responses", hear("responses", "chat", chunks(said, finish="length")))
    for reply in (whole, heard):
        assert reply["status"] == "incomplete"
        assert [one["status"] for one in reply["output"]] == ["completed"]


def test_images_of_responses_become_data_urls() -> None:
    drawn = [draw(PNG), draw(PNG), draw(JPEG, "jpeg")]
    reply = parse("chat", read("chat", "responses", response(SAID, *MADE)).body)
    assert reply["choices"][0]["message"]["images"] == drawn
    played = hear("chat", "responses", DRAWN)
    said = add_up("chat", played)["choices"][0]["message"]["images"]
    assert said == [{"index": index, **one} for index, one in enumerate(drawn)]
    assert (played.delivered, played.tokens) == (True, USED)


def test_without_a_usage_an_image_is_charged() -> None:
    played = hear("responses", "chat", chunks({"images": IMAGES}, usage=None))
    output = 2 * PICTURE_BYTES // 4
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=output), True)
    unreported = DRAWN.replace(b'"usage": {"input_tokens": 9, "output_tokens": 30}', b'"usage": 0')
    assert hear("chat", "responses", unreported).tokens.output == 3 * PICTURE_BYTES // 4


def test_images_count_among_what_a_stream_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_chat, "MAX_HELD_CHARS", 20)
    data = chunks(*({"images": [one]} for one in IMAGES))
    assert hear("responses", "chat", data).failure == "The upstream's reply is too large."


@each_row(
    ("caller", "said"),
    [
        ("messages", {"content": "Here:", "images": IMAGES}),
        ("messages", {"content": [*IMAGES]}),
        ("messages", {"content": None, "audio": RECORDING}),
        ("responses", {"content": None, "audio": RECORDING}),
        ("responses", {"images": [picture("https://x/cat.png")]}),
        ("responses", {"images": [picture("data:image/png,raw")]}),
        ("responses", {"images": ["cat", None]}),
        ("responses", {"content": [{"type": "input_audio", "input_audio": {}}]}),
    ],
)
def test_what_has_no_place_is_an_error(caller: str, said: Json) -> None:
    words = check_undeliverable("chat", completion(said), chunks(said), caller)
    assert "image" in words
    assert "audio" in words


def test_audio_comes_in_pieces() -> None:
    pieces = [{"audio": {key: held}} for key, held in RECORDING.items()]
    data = chunks(*pieces)
    for caller in ("messages", "responses"):
        check_undeliverable("chat", completion({"audio": RECORDING}), data, caller)


def test_messages_callers_are_told_of_images_of_responses() -> None:
    drawn = Tokens(
        9, output=3 * PICTURE_BYTES // 4
    )  # a stream that fails costs what it had by then
    words = check_undeliverable("responses", response(*MADE), DRAWN, "messages", drawn)
    assert "image" in words


@each_row("caller", ["messages", "responses"])
def test_nothing_is_no_media(caller: str) -> None:
    """OpenAI and others write the keys without anything in them."""
    said: Json = {"content": "Hi.", "audio": None, "images": [], "annotations": []}
    parse(caller, read(caller, "chat", completion(said)).body)
    odd: list[Json] = [{**said, "images": None, "audio": {}}, {"content": [{"type": []}]}]
    for empty in (said, *odd):
        add_up(caller, hear(caller, "chat", chunks(empty)))
