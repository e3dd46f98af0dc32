"""Bytes in memory: how accounts share the budget, and what takes nothing of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gateway.api.bodies import count_body, count_bytes, count_reply, may_read
from gateway.api.state import Gateway
from gateway.base.errors import Overloaded, RateLimited
from tests.api.scene import set_stage
from tests.support.chat import say
from tests.support.client import request
from tests.support.config import Kind
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply
from tests.support.rows import told_together

MIB = 2**20


def make_call(gateway: Gateway, account_id: int) -> Any:
    key = SimpleNamespace(account=SimpleNamespace(id=account_id))
    return SimpleNamespace(gateway=gateway, buffered_bytes=0, reply_bytes=0, key=key)


def make_gateway(max_bodies_mb: int) -> Gateway:
    server = SimpleNamespace(max_bodies_mb=max_bodies_mb)
    nothing = cast("Any", None)
    config = cast("Any", SimpleNamespace(server=server))
    return Gateway(config, nothing, nothing, nothing, nothing)


SHARES = Path(__file__).with_name("shares.txt")
"""Requests by name, each after its account: what they and their replies hold of the budget."""


def read_size(text: str) -> int:
    return sum(int(one[:-1]) * MIB if one.endswith("M") else int(one) for one in text.split("+"))


def play_share(gateway: Gateway, calls: dict[str, Any], step: str) -> str:
    name, verb, *sizes = step.split()
    call = calls.setdefault(name, make_call(gateway, int(name[0])))
    try:
        match verb:
            case "counts":
                count_body(call, *map(read_size, sizes))
            case "replies":
                return "read" if count_reply(call, *map(read_size, sizes)) else "waits"
            case "asks":
                return "read" if may_read(call) else "waits"
            case "holds":
                accounts = " ".join(map(str, gateway.shares))
                return f"{call.buffered_bytes / MIB:g}M of {gateway.buffered_bytes / MIB:g}M of {accounts}"
            case "ends":
                count_bytes(call, -call.buffered_bytes)
            case _:
                raise AssertionError(step)
    except (RateLimited, Overloaded) as refusal:
        return type(refusal).__name__
    return ""


def test_the_budget_is_shared_as_it_is_written() -> None:
    with told_together() as row:
        for block in SHARES.read_text(encoding="utf-8").split("# ")[1:]:
            title, budget, *lines = block.strip().split("\n")
            gateway, calls, told = make_gateway(int(budget.split()[0])), dict[str, Any](), []
            for line in lines:
                steps = line.partition(" = ")[0]
                results = [play_share(gateway, calls, one) for one in steps.split("; ")]
                told.append(" = ".join(filter(None, [steps, *results])))
            with row(title):
                assert told == lines


async def test_heads_without_bodies_reserve_nothing() -> None:
    """Eight of them announced the whole budget, and everybody else was refused."""
    async with set_stage(kinds={"plain": Kind(("alpha",), 1)}, server="max_bodies_mb = 1") as stage:
        headers = {"Authorization": f"Bearer {stage.key}", "Content-Type": "application/json"}
        head = request("POST", CHAT, {**headers, "Content-Length": str(1 << 20)})
        stage.alpha.play(json_reply(completion()))
        calls = [await stage.gateway.connect().__aenter__() for _ in range(8)]
        for call in calls:
            await call.send(head)
        await asyncio.sleep(0.1)  # the heads are read; there is no event to see that by
        assert (await stage.chat(say("plain/0"))).status == 200
        for call in calls:
            await call.close()
