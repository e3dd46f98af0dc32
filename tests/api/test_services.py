"""Texts, vectors, sounds, pictures and ranks, by OpenAI's own SDK and the demo; counts of tokens.

What is charged for them, and how they fail, is in `played/services.txt`.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import wave
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import MagicMock

import pytest

from gateway.api.limits import MAX_OWN_COUNTS
from gateway.api.routes import MAX_COUNT_BYTES, _count
from gateway.dialects.records import ReplyContext
from gateway.errors import BodyTooLarge
from gateway.usage import Expected, UsageLimits
from tests.api.scene import check_nobody_waits, set_stage
from tests.support.chat import Used, check_messages_error
from tests.support.config import EMBEDS, UPSTREAM_NAME, Kind, Places
from tests.support.embeddings import EMBEDDINGS, VECTORS, embed, embeddings, pack, round_trip
from tests.support.formats import COUNTERS, SERVICES
from tests.support.messages import ask, make_message
from tests.support.pairs import Clients
from tests.support.process import COUNT_TOKENS
from tests.support.records import make_call
from tests.support.replies import (
    LAST_CHUNK,
    chunked,
    dumps,
    error_reply,
    head,
    http,
    json_reply,
    sse_reply,
)
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.served import open_served
from tests.support.stage import Stage
from tests.support.texts import text_completion, text_events
from tests.support.upstream import Drip, ScriptedUpstream, Wait

SPEECH: Final = SERVICES["speech"]


async def test_the_sdk_gets_text_and_its_pieces(stage: Stage, clients: Clients) -> None:
    stage.alpha.play(json_reply(text_completion("one", "two")))
    model = stage.fresh("text")
    made = await clients.chat.completions.create(model=model, prompt="def", n=2, suffix="end")
    assert [one.text for one in made.choices] == ["one", "two"]
    assert (made.model, made.usage and made.usage.total_tokens) == (model, 18)
    stage.alpha.play(sse_reply(text_events("a", "b", "c")))
    stream = await clients.chat.completions.create(model=model, prompt="def", stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(one.choices[0].text for one in chunks) == "abc"
    assert {one.model for one in chunks} == {model}


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


@each_row("kind", ["embed", "embed-floats"])
async def test_a_caller_who_says_nothing_gets_floats(
    stage: Stage, clients: Clients, kind: str
) -> None:
    """The package asks for base64 then, whatever the provider can."""
    model = stage.fresh(kind)
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")))
    made = await clients.chat.embeddings.create(model=model, input=["one", "two"])
    sent = stage.alpha.last.json
    assert sent["encoding_format"] == ("base64" if kind == "embed" else "float")
    assert [tuple(one.embedding) for one in made.data] == [*map(round_trip, VECTORS)]
    assert [one.index for one in made.data] == [0, 1]
    assert (made.model, made.usage.prompt_tokens, made.usage.total_tokens) == (model, 11, 11)


@each_row("dimensions", [64, 256])
async def test_the_demo_embeds(clients: Clients, dimensions: int) -> None:
    asked = {} if dimensions == 64 else {"dimensions": dimensions}
    made = await clients.chat.embeddings.create(
        model="embed-demo/0", input=["Hello", "Hello", "Bye"], extra_body=asked
    )
    first, second, third = (one.embedding for one in made.data)
    assert first == second != third
    assert len(first) == dimensions
    assert math.isclose(math.hypot(*first), 1.0, rel_tol=1e-6)
    assert made.usage.prompt_tokens == 3


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
async def test_megabytes_of_vectors_stop_nobody(packed: bool) -> None:
    """A reply of base64 passes; one of floats is packed here. Others are answered meanwhile."""
    vector = [value / 2**30 for value in range(2**29, 2**29 + 3072)]
    item = pack(vector) if packed else vector
    count = 2048 if packed else 550
    data = [{"object": "embedding", "index": n, "embedding": item} for n in range(count)]
    large = dumps({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 7}})
    option = "" if packed else "embeddings_base64 = false"
    kinds = {"plain": Kind(("alpha",), 1, option, makes=EMBEDS)}
    async with set_stage(kinds=kinds) as stage:
        stage.alpha.always([http(large)])
        body = embed("plain/0", encoding_format="base64")
        reply = await check_nobody_waits(
            stage, lambda: stage.gateway.post(EMBEDDINGS, stage.key, body)
        )
        assert (reply.status, reply.complete) == (200, True)
        told = json.loads(reply.body)
        assert (told["model"], len(told["data"])) == ("plain/0", count)
        assert {one["embedding"] for one in told["data"]} == {pack(vector)}
        assert await stage.charge_nano(reply) == Used(7, 0).cost_nano


SPEECH_PATH: Final = "/v1/audio/speech"
MP3: Final = "audio/mpeg"
TEXT: Final = "Grüße 🎉 to all"
AUDIO: Final = b"{\xff\xf3 no json, and no event\n\n" + bytes(range(256)) * 300
CHUNKED: Final = head(200, content_type=MP3) + b"Transfer-Encoding: chunked\r\n\r\n"


def speak(model: str, text: object = TEXT, **extra: Any) -> dict[str, Any]:
    return {"model": model, "input": text, "voice": "alloy"} | extra


async def test_the_sdk_hears_audio_while_it_is_made(stage: Stage, clients: Clients) -> None:
    go_on, model = asyncio.Event(), stage.fresh("speech")
    stage.alpha.play(
        [CHUNKED + chunked(AUDIO[:100]), Wait(go_on), chunked(AUDIO[100:]) + LAST_CHUNK]
    )
    heard = b""
    asking = clients.chat.audio.speech.with_streaming_response.create(
        model=model, input=TEXT, voice="alloy", instructions="Slowly.", response_format="mp3"
    )
    async with asking as speech:
        assert speech.headers["content-type"] == MP3
        async for piece in speech.iter_bytes():
            heard += piece
            go_on.set()
    assert heard == AUDIO
    sent = stage.alpha.last
    assert sent.target == SPEECH_PATH
    assert sent.json == speak(UPSTREAM_NAME, instructions="Slowly.", response_format="mp3")


async def test_no_comment_is_put_into_a_silence(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places
) -> None:
    more = (
        f'[providers.voice]\ndialect = "chat"\nbase_url = "{places.urls["alpha"]}"\n'
        '[models."v"]\nkind = "audio"\nroutes = ["voice/v"]\nprice = { input = 1 }\n'
    )
    async with open_served(tmp_path, server="comment_seconds = 0.1", more=more) as served:
        secret = await served.add_key()
        alpha.play([Drip((b"",) * 4, 0.1), CHUNKED, chunked(AUDIO) + LAST_CHUNK])
        reply = await served.post_json(secret, SPEECH_PATH, speak("v"))
    assert (reply.headers["Content-Type"], reply.body) == (MP3, AUDIO)


async def test_the_demo_is_silent_for_a_second(stage: Stage, clients: Clients) -> None:
    speech = await clients.chat.audio.speech.create(
        model="speech-demo/0", input="Hello", voice="alloy"
    )
    with wave.open(io.BytesIO(speech.content)) as made:
        assert made.getnframes() == made.getframerate()
        assert set(made.readframes(made.getnframes())) == {0x80}
    charged = await stage.books.charge_nano(speech.response.headers["x-request-id"])
    assert charged == Used(len("Hello"), 0).cost_nano


@each_row("size", [1, 2, 7, 10**6])
def test_the_last_byte_waits_in_any_slicing(size: int) -> None:
    request = SPEECH.caller.parse_request(dumps(speak("m")))
    context = ReplyContext(request, "r", Expected(1, UsageLimits(10**6, 10**6, 10**6)))
    pipeline, data = SPEECH.open_stream(context), AUDIO[:1000]
    out = b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size))
    assert (out, pipeline.complete, pipeline.buffered_bytes) == (data[:-1], False, 1)
    assert pipeline.end() == b""
    assert (pipeline.complete, pipeline.finish()) == (True, data[-1:])
    assert pipeline.measure().tokens.input == len(TEXT)


async def test_provider_that_cannot_count_can_still_answer(stage: Stage) -> None:
    """Imitations lack this path, and agents count often, so it must not open the breaker."""
    model = stage.fresh("messages")
    message, lost = json_reply(make_message()), error_reply(404)
    stage.alpha.always(lambda one: lost if one.target == COUNT_TOKENS else message)
    for _ in range(8):
        await stage.gateway.post(COUNT_TOKENS, stage.key, ask(model))
    assert (await stage.message(ask(model))).status == 200


async def test_an_account_counts_few_at_once(stage: Stage, spare: Caller) -> None:
    """A count holds a body and a connection and costs nothing, so others must not wait for it."""
    gate, key = asyncio.Event(), spare.key
    stage.alpha.always([Wait(gate), *json_reply({"input_tokens": 1})])
    body = ask(stage.fresh("messages"))
    post = partial(stage.gateway.post, COUNT_TOKENS, key, body)
    before = len(stage.alpha.exchanges)
    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(post()) for _ in range(MAX_OWN_COUNTS)]
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS)
        check_messages_error(await post(), 429, "rate_limit_error")
        others = group.create_task(stage.gateway.post(COUNT_TOKENS, stage.key, body))
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS + 1)
        gate.set()
    assert [one.result().status for one in (*counts, others)] == [200] * (MAX_OWN_COUNTS + 1)
    assert (await post()).status == 200


async def test_a_body_to_count_has_a_limit_of_its_own() -> None:
    """Counting is free, so its bodies are smaller than those that are paid for."""
    server = SimpleNamespace(max_body_mb=32)
    http = MagicMock(
        content_length=MAX_COUNT_BYTES + 1, headers={"Content-Type": "application/json"}
    )
    http.content.is_eof.return_value = False
    call = make_call(gateway=SimpleNamespace(config=SimpleNamespace(server=server)))
    with pytest.raises(BodyTooLarge, match="4 MiB"):
        await _count(http, call, COUNTERS[COUNT_TOKENS.removeprefix("/v1")])
