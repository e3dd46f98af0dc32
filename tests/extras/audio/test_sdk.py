"""Sounds, by OpenAI's own SDK and the demo. What is charged for them, and how they fail, is in `played.txt`."""

from __future__ import annotations

import asyncio
import io
import wave
from pathlib import Path
from typing import Any, Final

from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import ReplyContext
from tests.support.chat import Used
from tests.support.config import UPSTREAM_NAME, Places
from tests.support.formats import SERVICES
from tests.support.replies import LAST_CHUNK, chunked, dumps, head
from tests.support.rows import each_row
from tests.support.sdks import Clients
from tests.support.served import open_served
from tests.support.stage import Stage
from tests.support.upstream import Drip, ScriptedUpstream, Wait

SPEECH: Final = SERVICES["speech"]
SPEECH_PATH: Final = "/v1/audio/speech"
MP3: Final = "audio/mpeg"
TEXT: Final = "Grüße 🎉 to all"
AUDIO: Final = b"{\xff\xf3 no json, and no event\n\n" + bytes(range(256)) * 300
CHUNKED: Final = head(200, content_type=MP3) + b"Transfer-Encoding: chunked\r\n\r\n"


def speak(model: str, **extra: Any) -> dict[str, Any]:
    return {"model": model, "input": TEXT, "voice": "alloy"} | extra


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
    assert (pipeline.complete, pipeline.take_last()) == (True, data[-1:])
    assert pipeline.measure().tokens.input == len(TEXT)
