"""No secret in any log, error, table or file, after everything was done to bring one there.

What the whole run left behind is searched when the shared gateway stops, and every reply that a
test reads is searched as it comes.
"""

from __future__ import annotations

import asyncio

from support.chat import say
from support.client import connect
from support.process import CHAT
from support.replies import completion, error_reply, json_reply, sse_reply, sse_start, text_chunks
from support.stage import Stage
from support.upstream import End, Script

PROMPT = "canary-prompt-5f2d"
TEXT = "canary-completion-91ab"


async def provoke(stage: Stage) -> None:
    """Every way we know to make a server say what it should not."""
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
    "account list --json",
    "account show rich --json",
    "key list --json",
    "usage --by key --json",
    "check",
]


async def test_no_command_shows_a_key(stage: Stage) -> None:
    runs = [stage.gateway.run(*line.split()) for line in COMMANDS]
    for verb in await asyncio.gather(*runs):
        assert verb.code == 0, verb.err
        told = (verb.out + verb.err).encode()
        assert [one[:10] for one in stage.gateway.canaries if one in told] == []
