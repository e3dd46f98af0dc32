"""Transcripts: a form with a file, which is sent on as often as there are routes, and charged by the second."""

from __future__ import annotations

import asyncio
import errno
import struct
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.api.uploads import DISK_FACTOR, MEMORY_BYTES, KeptFile
from gateway.dialects.wire.forms import MAX_PARTS
from gateway.errors import Overloaded
from tests.api.language import BOUNDARY, END, SOUND, TRANSCRIPTIONS, make_form, make_part
from tests.api.scene import Vitals
from tests.console.kit import API, Console, open_console, start_console
from tests.support.chat import check_error
from tests.support.client import Call, Reply, connect, request
from tests.support.config import UPSTREAM_NAME
from tests.support.pairs import Clients
from tests.support.replies import error_reply, json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Wait
from tests.support.waiting import until

PATH: Final = TRANSCRIPTIONS
SECOND_NANO: Final = 100_000
"""0.006 a minute."""
BYTES_PER_SECOND: Final = 2000
LARGE: Final = bytes(range(251)) * 3500
"""878 kB, which do not stay in memory."""
TEXT: Final = {"text": "Grüße 🎉", "usage": {"type": "duration", "seconds": 9}}


def headers(stage: Stage, content_type: str = "") -> dict[str, str]:
    kind = content_type or f"multipart/form-data; boundary={BOUNDARY}"
    return {"Authorization": f"Bearer {stage.key}", "Content-Type": kind}


async def transcribe(stage: Stage, body: bytes, content_type: str = "") -> Reply:
    async with connect(stage.gateway.port, forbidden=[stage.secret.encode()]) as call:
        await call.send(request("POST", PATH, headers(stage, content_type), body))
        return await call.read_all()


def read_form(exchange: Exchange) -> dict[str, Any]:
    """Read what was sent by another parser, with names, types and contents in their order."""
    head = b"Content-Type: " + exchange.headers["content-type"].encode() + b"\r\n\r\n"
    message = BytesParser(policy=HTTP).parsebytes(head + exchange.body)
    told: dict[str, Any] = {}
    for one in message.iter_parts():
        name = one.get_param("name", header="content-disposition")
        content = one.get_payload(decode=True)
        assert isinstance(content, bytes)
        file = one.get_filename()
        value = (file, one.get_content_type(), content) if file else content.decode()
        assert isinstance(name, str)
        told[name] = value if name not in told else [told[name], value]
    return told


@each_row("sound", [SOUND, LARGE])
async def test_the_sdk_gets_the_text_and_the_provider_the_file(
    stage: Stage, clients: Clients, sound: bytes
) -> None:
    stage.alpha.play(json_reply(TEXT))
    model = stage.fresh("hearing")
    made = await clients.chat.audio.transcriptions.with_raw_response.create(
        model=model,
        file=('a "b".mp3', sound),
        language="de",
        prompt="Ä",
        timestamp_granularities=["word", "segment"],
        extra_body={"x_new": "1"},
    )
    assert made.parse().text == TEXT["text"]
    assert await stage.books.charge_nano(made.headers["x-request-id"]) == 9 * SECOND_NANO
    sent = stage.alpha.last
    assert sent.target == PATH
    assert int(sent.headers["content-length"]) == len(sent.body)
    assert read_form(sent) == {
        "model": UPSTREAM_NAME,
        "language": "de",
        "prompt": "Ä",
        "timestamp_granularities[]": ["word", "segment"],
        "x_new": "1",
        "file": ("a %22b%22.mp3", "audio/mpeg", sound),
    }


async def test_the_file_may_come_first_and_slowly(stage: Stage) -> None:
    stage.alpha.play(json_reply(TEXT))
    body = make_form(stage.fresh("hearing"))
    async with connect(stage.gateway.port) as call:
        head = headers(stage) | {"Content-Length": str(len(body)), "Expect": "100-continue"}
        await call.send(request("POST", PATH, head))
        await call.read_head()
        assert call.status == 100
        for at in range(0, len(body), 997):
            await call.send(body[at : at + 997])
        reply = await call.read_all()
    assert reply.json == TEXT
    assert read_form(stage.alpha.last)["file"] == ("a b.mp3", "audio/mpeg", SOUND)
    seconds = -(-len(SOUND) // BYTES_PER_SECOND)
    assert stage.books.hold_nano(reply.request_id) == seconds * SECOND_NANO
    await stage.check_log(reply)


def wave(seconds: int) -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, 4000, 1, 1, 16)
    data = bytes(16_000 * seconds)
    rest = b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(rest)) + rest


async def test_the_hold_for_a_wave_file_is_for_its_length(stage: Stage) -> None:
    """At the rate of the smallest files it would be eight times as much."""
    stage.alpha.play(json_reply({"text": "a"}))
    reply = await transcribe(stage, make_form(stage.fresh("hearing"), wave(20)))
    assert stage.books.hold_nano(reply.request_id) == 21 * SECOND_NANO
    assert await stage.charge_nano(reply) == 21 * SECOND_NANO, "the provider tells nothing"
    assert (await stage.settled(reply)).estimated


async def test_the_sdk_gets_the_pieces_of_a_text(stage: Stage, clients: Clients) -> None:
    kinds = ["transcript.text.delta", "transcript.text.done"]
    usage = {"type": "duration", "seconds": 9}
    told = [{"type": kinds[0], "delta": "Hi"}, {"type": kinds[1], "text": "Hi", "usage": usage}]
    stage.alpha.play(sse_reply(told, done=False))
    stream = await clients.chat.audio.transcriptions.create(
        model=stage.fresh("hearing"), file=("a.mp3", SOUND), stream=True
    )
    assert [one.type async for one in stream] == kinds
    assert read_form(stage.alpha.last)["stream"] == "true"


@each_row("sound", [SOUND, LARGE])
async def test_the_next_route_gets_the_file_again(stage: Stage, sound: bytes) -> None:
    stage.alpha.play(error_reply(503))
    stage.beta.play(json_reply(TEXT))
    reply = await transcribe(stage, make_form(stage.fresh("hearing-pair"), sound))
    assert reply.json == TEXT
    first, second = stage.alpha.last, stage.beta.last
    assert read_form(first) == read_form(second)
    assert read_form(second)["file"][2] == sound
    assert first.headers["content-type"] != second.headers["content-type"], "a new boundary"


NAMED: Final = make_part("file", b"a", "a.mp3")
ENDLESS: Final = f"--{BOUNDARY}\r\n".encode() + b"y" * 10_000
LONG: Final = make_part("a", "", extra="X: " + "y" * 9000 + "\r\n")


@each_row(
    ("body", "status", "said"),
    [
        (make_part("a[]", "") * (MAX_PARTS + 1) + NAMED + END, 400, "more than 256 parts"),
        (LONG + NAMED, 400, "large a head"),
        (ENDLESS, 400, "large a head"),
        (make_form("hearing/0", bytes(2**20)), 413, "larger than 1 MiB"),
    ],
)
async def test_giant_forms_are_refused_and_free(
    stage: Stage, body: bytes, status: int, said: str
) -> None:
    reply = await transcribe(stage, body)
    assert (reply.status, said in reply.json["error"]["message"]) == (status, True), reply.body
    assert stage.alpha.exchanges == []


async def test_the_demo_says_how_long_a_recording_is(stage: Stage, clients: Clients) -> None:
    raw = await clients.chat.audio.transcriptions.with_raw_response.create(
        model="hearing-demo/0", file=("a.mp3", LARGE), response_format="verbose_json"
    )
    assert "878,500 bytes, 440 seconds" in raw.parse().text
    assert await stage.books.charge_nano(raw.headers["x-request-id"]) == 440 * SECOND_NANO
    stream = await clients.chat.audio.transcriptions.create(
        model="hearing-demo/0", file=("a.wav", wave(2)), stream=True
    )
    assert [one.type async for one in stream][-1] == "transcript.text.done"


def list_open(stage: Stage) -> Iterator[Path]:
    """List the files without a name that the gateway has open in its folder."""
    assert stage.gateway.process is not None
    for one in Path(f"/proc/{stage.gateway.process.pid}/fd").iterdir():
        with suppress(OSError):  # it was closed meanwhile
            target = one.readlink()
            if target.parent == stage.gateway.folder and target.name.endswith("(deleted)"):
                yield target


@each_row("stage_of", ["in the file", "before the end", "while the provider works"])
async def test_nothing_is_left_of_a_caller_that_leaves(stage: Stage, stage_of: str) -> None:
    go_on = asyncio.Event()
    body = make_form(stage.fresh("hearing"), LARGE)
    sent = {"in the file": body[:600_000], "before the end": body[:-1]}.get(stage_of, body)
    if sent is body:
        stage.alpha.play([Wait(go_on), *json_reply(TEXT)])
    async with connect(stage.gateway.port) as call:
        head = headers(stage) | {"Content-Length": str(len(body))}
        await call.send(request("POST", PATH, head) + sent)
        if sent is body:
            await stage.alpha.wait_for(1)
        await until(lambda: any(list_open(stage)), "the file is on disk")
        call.reset()
    go_on.set()
    await until(lambda: not any(list_open(stage)), "the file is gone")
    assert len(stage.alpha.exchanges) == (sent is body)


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


def list_names(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


async def test_a_file_is_kept_wherever_one_can_be_written(
    tmp_path: Path, thread: ThreadPoolExecutor
) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        kept = KeptFile(folder, thread)
        for _ in range(10):
            await kept.add(SOUND)
        await kept.finish("a.mp3", "audio/mpeg")
        assert (kept.is_on_disk, kept.size) == (True, 10 * len(SOUND))
        assert list_names(tmp_path) == [], "a kill leaves nothing"
        assert await kept.read(0, len(SOUND)) == SOUND
        assert await kept.read(kept.size - 3, 10) == SOUND[-3:]
        kept.close()


async def test_a_full_disk_is_no_fault_of_the_caller(
    tmp_path: Path, thread: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    kept = KeptFile(tmp_path, thread)
    with pytest.raises(Overloaded, match="no room for files"):
        await kept.add(LARGE)
    kept.close()


EAR: Final = '[models."ear"]\nkind = "audio"\nroutes = ["demo/ear"]\nprice = "free"\n'


async def begin_upload(console: Console, secret: str, body: bytes, count: int) -> Call:
    """Send a part of an upload."""
    call = await Call.open(console.port)
    head = {"Authorization": f"Bearer {secret}", "Content-Length": str(len(body))}
    head["Content-Type"] = f"multipart/form-data; boundary={BOUNDARY}"
    await call.send(request("POST", PATH, head))
    await call.send(body[:count])
    return call


async def end_uploads(calls: Sequence[Call], rest: bytes) -> None:
    for call in calls:
        await call.send(rest)
        assert (await call.read_all()).status == 200
        await call.close()


async def test_bytes_on_disk_count_against_the_account_for_an_eighth(tmp_path: Path) -> None:
    """An account has two of the 4 MiB for all bodies: two files of 5 MiB, and no third."""
    server = "max_body_mb = 8\nmax_bodies_mb = 4"
    async with open_console(tmp_path, server=server, more=EAR) as console:
        secret = (await console.post(f"{API}/keys", {"name": "laptop"})).json["secret"]
        gateway, body = console.gateway, make_form("ear", bytes(5 << 20))
        assert gateway is not None
        calls = [await begin_upload(console, secret, body, len(body) - 1) for _ in range(2)]
        both = 2 * (MEMORY_BYTES + (len(body) - MEMORY_BYTES) // DISK_FACTOR) - 1000
        await until(lambda: gateway.buffered_bytes > both, "both files to be counted")
        late = await begin_upload(console, secret, body, len(body))
        check_error(await late.read_all(), 429, "rate_limit_exceeded")
        await late.close()
        await end_uploads(calls, body[-1:])


@pytest.mark.slow
async def test_memory_stays_flat_under_large_uploads(tmp_path: Path) -> None:
    """Twenty files of 24 MiB take less than a twelfth of that in memory."""
    async with start_console(tmp_path, more=EAR) as console:
        assert console.process is not None
        vitals = Vitals(console.process)
        secret = (await console.post(f"{API}/keys", {"name": "laptop"})).json["secret"]
        body, before = make_form("ear", bytes(24 << 20)), vitals.rss_bytes
        calls = [await begin_upload(console, secret, body, len(body) - 1) for _ in range(20)]
        grown = vitals.rss_bytes - before
        await end_uploads(calls, body[-1:])
    assert grown < 40 << 20, grown
