"""The scripted vendors themselves: each takes back what it gave, and refuses what is lost or foreign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, cast

import pytest

from tests.agents.loop import (
    ALL_TURNS,
    QUESTIONS,
    Agent,
    MessagesAgent,
    ResponsesAgent,
    WholeChatAgent,
)
from tests.agents.vendors import VENDORS
from tests.agents.vendors.base import Refused
from tests.support.formats import CALLERS
from tests.support.process import GatewayProcess
from tests.support.replies import Json
from tests.support.rows import each_row

HERE: Final = [name for name, one in VENDORS.items() if one.dialect in CALLERS]
REFUSALS: Final = [
    line
    for line in Path(__file__)
    .with_name("refusals.txt")
    .read_text("utf-8")
    .split("\n\n")[1]
    .splitlines()
    if line.partition(": ")[0] in HERE
]
NATIVE: Final[dict[str, type[Agent]]] = {
    "chat": WholeChatAgent,
    "messages": MessagesAgent,
    "responses": ResponsesAgent,
}
NOBODY: Final = cast("GatewayProcess", None)
ENCRYPTED: Final = {"store": False, "include": ["reasoning.encrypted_content"]}


def begin(name: str) -> Agent:
    agent = NATIVE[VENDORS[name].dialect](NOBODY, "", stream=False)
    agent.ask(QUESTIONS[0])
    return agent


def take_turn(name: str, agent: Agent, **extra: Any) -> int:
    """Take a turn without a gateway; return how many turns the vendor found whole."""
    vendor = VENDORS[name]
    body = agent.write("model", vendor.thinking)
    encrypted = ENCRYPTED if vendor.dialect == "responses" else {}
    answer = vendor.answer({**body, **encrypted, **extra})
    (reply,) = answer.script
    assert isinstance(reply, bytes)
    value = json.loads(reply.partition(b"\r\n\r\n")[2])
    whole = value["choices"][0]["message"] if "choices" in value else None
    agent.go_on(whole or value.get("content") or value["output"])
    return answer.recalled


@each_row("name", HERE)
def test_it_takes_back_what_it_gave(name: str) -> None:
    agent = begin(name)
    assert [take_turn(name, agent) for _ in range(ALL_TURNS)] == [0, 1, 2, 2]


def change(history: Any, step: str) -> None:
    """Drop a place, or put a value there: `drop 1.id`, or `1.id = "x"`."""
    dotted, _, value = step.removeprefix("drop ").partition(" = ")
    *path, last = (int(one) if one.isdecimal() else one for one in dotted.split("."))
    for part in path:
        history = history[part]
    if value:
        history[last] = json.loads(value)
    else:
        del history[last]


@each_row("line", REFUSALS)
def test_it_refuses(line: str) -> None:
    case, _, words = line.rpartition(" ! ")
    name, _, damage = case.partition(": ")
    agent = begin(name)
    extra: Json = {}
    if damage.startswith("{"):
        extra = json.loads(damage)
    else:
        take_turn(name, agent)
        for step in damage.split(", "):
            change(agent.history, step)
    with pytest.raises(Refused) as raised:
        take_turn(name, agent, **extra)
    assert words in str(raised.value)
