"""Words of callers and providers get into no file, and no command shows a key.

The files of the whole run are searched for keys when the shared gateway stops, and every reply that a test
reads is searched when it comes.
"""

from __future__ import annotations

import asyncio

from gateway.cli.verbs import find_words
from tests.support.chat import say
from tests.support.process import GatewayProcess
from tests.support.replies import completion, error_reply, json_reply, sse_start, text_chunks
from tests.support.stage import Stage
from tests.support.upstream import End, Script

PROMPT = "canary-prompt-5f2d"
TEXT = "canary-completion-91ab"


async def test_nothing_that_is_said_is_written_down(stage: Stage) -> None:
    """Neither in a reply, nor in one that breaks off, nor in the words of a refusal."""
    scripts: list[Script] = [
        json_reply(completion(TEXT)),
        [*sse_start(text_chunks([TEXT], finish=None)), End.RST],
        error_reply(400, f"bad request with {PROMPT}"),
    ]
    for number, script in enumerate(scripts):
        stage.alpha.play(script)
        reply = await stage.chat(say(stage.fresh("brisk"), PROMPT, stream=number == 1))
        await stage.check_log(reply)
    for path in stage.gateway.folder.rglob("*"):
        if path.is_file() and path != stage.gateway.config:
            data = path.read_bytes()
            assert not [word for word in (PROMPT, TEXT) if word.encode() in data], path.name


COMMANDS = [
    "account list --json", "account show rich --json", "key list --json", "usage --by key --json",
    "check",
]  # fmt: skip


async def test_no_command_shows_a_key(gateway: GatewayProcess) -> None:
    lines = [line for line in COMMANDS if line.split()[0] in find_words()]  # extras have some
    for verb in await asyncio.gather(*(gateway.run(*line.split()) for line in lines)):
        assert verb.code == 0, verb.err
        told = (verb.out + verb.err).encode()
        assert [one[:10] for one in gateway.canaries if one in told] == []
