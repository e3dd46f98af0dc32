"""No secret gets into a log, error, table or file, after many attempts to bring one there.

The files of the whole run are searched when the shared gateway stops, and every reply that a test
reads is searched when it comes.
"""

from __future__ import annotations

import asyncio

from gateway.cli.verbs import find_words
from tests.support.chat import say
from tests.support.client import connect
from tests.support.process import CHAT
from tests.support.replies import (
    completion,
    error_reply,
    json_reply,
    sse_reply,
    sse_start,
    text_chunks,
)
from tests.support.running import Launch
from tests.support.stage import Stage
from tests.support.upstream import End, Script

PROMPT = "canary-prompt-5f2d"
TEXT = "canary-completion-91ab"


async def provoke(stage: Stage) -> None:
    """Use every known way to make a server reveal a secret."""
    key, secret = stage.key, stage.secret
    scripts: list[Script] = [
        error_reply(401, f"Incorrect API key provided: {secret}"),
        error_reply(500, f"exception in handler, Authorization: Bearer {secret}"),
        error_reply(400, f"bad request with {secret} and {PROMPT}"),
        [f"HTTP/1.1 200 {secret}\r\nX-Bad Header\r\n\r\n".encode(), End.FIN],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + secret.encode(), End.FIN],
        sse_reply([{"error": {"message": f"{secret} is over quota", "code": 429}}]),
        [*sse_start(text_chunks([TEXT], finish=None)), End.RST],
        json_reply(completion(TEXT)),
        json_reply({"error": {"message": f"no: {secret}"}}),
    ]
    for number, script in enumerate(scripts):
        stage.alpha.play(script)
        await stage.chat(say(stage.fresh("brisk"), PROMPT, stream=number in {5, 6}))
    for body in (b"{" + key.encode(), say(key, PROMPT), say("plain/0", PROMPT, n=key)):
        await stage.chat(body)
    for path in (f"/v1/{key}", f"/v1/models/{key}x", f"{CHAT}?api_key={key}"):
        await stage.gateway.ask("GET", path, headers={"Referer": key, "User-Agent": key})
    # What is no HTTP is answered before any code of ours, with the line that was sent.
    async with connect(stage.gateway.port) as call:
        await call.send(f"GET /v1/models HTTP/1.1\r\nHost: x\r\nA b: {key}\r\n\r\n".encode())
        await call.read_to_close()


async def test_nothing_that_is_secret_is_written_down(stage: Stage) -> None:
    await provoke(stage)
    words = [PROMPT.encode(), TEXT.encode()]
    for path in stage.gateway.folder.rglob("*"):
        if path.is_file() and path != stage.gateway.config:
            data = path.read_bytes()
            assert not [word for word in words if word in data], path.name
    assert stage.gateway.find_canaries() == []


COMMANDS = [
    "account list --json", "account show rich --json", "key list --json", "usage --by key --json",
    "check",
]  # fmt: skip


async def test_no_command_shows_a_key(launch: Launch) -> None:
    gateway = launch().gateway
    lines = [line for line in COMMANDS if line.split()[0] in find_words()]  # extras have some
    for verb in await asyncio.gather(*(gateway.run(*line.split()) for line in lines)):
        assert verb.code == 0, verb.err
        told = (verb.out + verb.err).encode()
        assert [one[:10] for one in gateway.canaries if one in told] == []
