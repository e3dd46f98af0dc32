"""Transcripts: a form with a file, which is sent on as often as there are routes, and charged by the second."""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gateway.base.errors import Overloaded, RateLimited
from gateway.extras.audio.uploads import FREE_BYTES, MEMORY_BYTES, Disk, KeptFile
from tests.api.language import BOUNDARY, SOUND, TRANSCRIPTIONS, make_form, make_part
from tests.api.scene import Vitals
from tests.support.chat import check_error
from tests.support.client import Call, Reply, connect, request
from tests.support.config import UPSTREAM_NAME
from tests.support.replies import error_reply, json_reply
from tests.support.rows import each_row
from tests.support.sdks import Clients
from tests.support.served import Served, open_served, start_served
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Wait
from tests.support.waiting import until

PATH: Final = TRANSCRIPTIONS
SECOND_NANO: Final = 100_000
"""0.006 a minute."""
BYTES_PER_SECOND: Final = 750
LARGE: Final = bytes(range(251)) * 3500
"""878 kB, which do not stay in memory."""
TEXT: Final = {"text": "Grüße 🎉", "usage": {"type": "duration", "seconds": 9}}


def headers(stage: Stage) -> dict[str, str]:
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    return {"Authorization": f"Bearer {stage.key}", "Content-Type": kind}


async def transcribe(stage: Stage, body: bytes) -> Reply:
    async with connect(stage.gateway.port, forbidden=[stage.secret.encode()]) as call:
        await call.send(request("POST", PATH, headers(stage), body))
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
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 1, 1, 16)
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


async def test_the_demo_says_how_long_a_recording_is(stage: Stage, clients: Clients) -> None:
    raw = await clients.chat.audio.transcriptions.with_raw_response.create(
        model="hearing-demo/0", file=("a.mp3", LARGE), response_format="verbose_json"
    )
    assert "878,500 bytes, 1172 seconds" in raw.parse().text
    assert await stage.books.charge_nano(raw.headers["x-request-id"]) == 1172 * SECOND_NANO
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


async def test_a_model_that_the_key_may_not_use_is_refused_as_soon_as_it_is_named(
    stage: Stage,
) -> None:
    head = request("POST", PATH, headers(stage) | {"Content-Length": str(2**20)})
    for model, code in (("x", "model_not_found"), (stage.fresh("plain"), "unsupported_value")):
        async with connect(stage.gateway.port) as call:
            await call.send(head + make_part("model", model) + make_part("file", LARGE, "a.mp3"))
            check_error(await call.read_all(), 400, code)
    assert list(list_open(stage)) == []


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    with disk.thread:
        yield disk
    assert (disk.used_bytes, disk.waiting_bytes, disk.shares) == (0, 0, {})


def list_names(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


async def test_a_file_is_kept_wherever_one_can_be_written(tmp_path: Path, disk: Disk) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        kept = KeptFile(folder, disk, 1, 2**30)
        for _ in range(10):
            await kept.add(SOUND)
        await kept.finish("a.mp3", "audio/mpeg")
        assert (kept.is_on_disk, kept.size) == (True, 10 * len(SOUND))
        assert list_names(tmp_path) == [], "a kill leaves nothing"
        assert await kept.read(0, len(SOUND)) == SOUND
        assert await kept.read(kept.size - 3, 10) == SOUND[-3:]
        kept.close()


async def test_a_full_disk_is_no_fault_of_the_caller(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once a minute, however many find it full."""

    def fail(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    for _ in range(3):
        kept = KeptFile(tmp_path, disk, 1, 2**30)
        with pytest.raises(Overloaded, match="no room for files"):
            await kept.add(LARGE)
        kept.close()
    assert len(caplog.messages) == 1


@each_row(
    ("accounts", "free", "most", "kept"),
    [
        (range(10), FREE_BYTES + 3 * len(LARGE), 2**30, 3),
        (range(10), FREE_BYTES + len(LARGE) - 1, 2**30, 0),
        ([1] * 10, FREE_BYTES + 8 * len(LARGE), 2**30, 4),
        ([1] * 10, 2**40, 6 * len(LARGE), 3),
        ([1] * 9 + [2], 2**40, 6 * len(LARGE), 4),
        ([1, 2, 2, 2], 2**40, 1, 1),
    ],
)
async def test_files_share_what_the_ledger_does_not_need(
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    *,
    accounts: Sequence[int],
    free: int,
    most: int,
    kept: int,
) -> None:
    """All at once: what is promised and not written yet is not free. An account has half."""
    told = SimpleNamespace(f_bavail=free, f_frsize=1)
    monkeypatch.setattr(os, "fstatvfs", lambda _: told)
    files = [KeptFile(tmp_path, disk, one, most) for one in accounts]
    results = await asyncio.gather(*(one.add(LARGE) for one in files), return_exceptions=True)
    refused = [one for one in results if one is not None]
    assert all(isinstance(one, Overloaded | RateLimited) for one in refused)
    assert len(files) - len(refused) == kept, results
    for one in files:
        one.close()


EAR: Final = '[models."ear"]\nkind = "audio"\nroutes = ["demo/ear"]\nprice = "free"\n'


async def begin_upload(served: Served, secret: str, body: bytes, count: int) -> Call:
    """Send a part of an upload."""
    call = await Call.open(served.port)
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


async def test_an_account_has_half_of_the_room_on_disk(tmp_path: Path) -> None:
    """Two files of 5 MiB are on disk, and no third; of each a piece is in memory."""
    server = "max_body_mb = 8\nmax_bodies_mb = 4\nmax_uploads_mb = 21"
    async with open_served(tmp_path, server=server, more=EAR) as served:
        secret = await served.add_key()
        gateway, body = served.gateway, make_form("ear", bytes(5 << 20))
        (disk,) = gateway.find_offers(Disk)
        calls = [await begin_upload(served, secret, body, len(body) - 1) for _ in range(2)]
        both = 2 * (len(body) - 2 * MEMORY_BYTES)
        await until(lambda: disk.used_bytes > both, "both files to be counted")
        assert gateway.buffered_bytes < 3 * MEMORY_BYTES
        late = await begin_upload(served, secret, body, len(body))
        check_error(await late.read_all(), 429, "rate_limit_exceeded")
        await late.close()
        await end_uploads(calls, body[-1:])
        assert (disk.used_bytes, gateway.buffered_bytes) == (0, 0)


@pytest.mark.slow
async def test_memory_stays_flat_under_large_uploads(tmp_path: Path) -> None:
    """Twenty files of 24 MiB take less than a twelfth of that in memory."""
    async with start_served(tmp_path, more=EAR) as served:
        vitals = Vitals(served.process)
        secret = await served.add_key()
        body, before = make_form("ear", bytes(24 << 20)), vitals.rss_bytes
        calls = [await begin_upload(served, secret, body, len(body) - 1) for _ in range(20)]
        grown = vitals.rss_bytes - before
        await end_uploads(calls, body[-1:])
    assert grown < 40 << 20, grown
