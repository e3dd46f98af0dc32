"""A caller whose stream's head could not be sent may ask again on the same connection."""

from __future__ import annotations

import json
from pathlib import Path

from tests.api.in_flight import Happening, open_scene
from tests.api.scene import ASKS
from tests.support import client
from tests.support.chat import check_error
from tests.support.client import request
from tests.support.config import Places
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply, sse_reply, stream_chunks
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until


async def test_the_next_request_is_served_once_the_ledger_is_back(
    tmp_path: Path, places: Places, alpha: ScriptedUpstream
) -> None:
    alpha.play(sse_reply(stream_chunks(["Hallo"])), json_reply(completion()))
    async with (
        open_scene(Happening(), tmp_path, places, alpha) as scene,
        client.connect(scene.port) as call,
    ):
        headers = {"Content-Type": "application/json", "x-api-key": scene.key}

        async def ask(*, stream: bool) -> client.Reply:
            body = json.dumps(ASKS["chat"]("plain/0", stream=stream)).encode()
            await call.send(request("POST", CHAT, headers, body))
            await call.read_head()
            return await call.read_all()

        await scene.break_ledger()
        check_error(await ask(stream=True), 503, "server_is_overloaded")
        await scene.mend_ledger()
        assert scene.ledger is not None
        await until(lambda: scene.ledger and scene.ledger.writable, "the ledger to be back")
        assert (await ask(stream=False)).status == 200
