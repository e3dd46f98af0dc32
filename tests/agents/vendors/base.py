"""The base of all scripted vendors: the conversation that they play, and how they refuse.

A vendor keeps nothing between two requests. What it wants back is computed from the ids of its own
calls, so it knows its turns in any history.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.support.config import Dialect
from tests.support.replies import Json, json_reply
from tests.support.upstream import Script

HABITS: Final = tomllib.loads(Path(__file__).with_name("habits.toml").read_text(encoding="utf-8"))
STEPS: Final = (("Köln", "Oslo"), ("Bergen",))
"""The cities that a vendor asks for in each turn with calls; then it tells what it has learned."""
LAST: Final = len(STEPS)
TOOL: Final = "weather"
TOOLS: Final[Mapping[str, Callable[[str], Json]]] = {
    TOOL: lambda city: {"city": city},
    "exec_command": lambda city: {"cmd": f"echo sunny in {city}"},
    "Bash": lambda city: {"command": f"echo sunny in {city}", "description": f"Ask {city}"},
}
"""The arguments of each tool that a vendor knows: its own, Codex' shell and Claude Code's."""
OPENING: Final = "I look."
"""The words beside the first calls."""

Thinking = Literal["", "adaptive", "enabled"]


class Refused(Exception):
    """A vendor's refusal, as it goes over the wire."""

    def __init__(self, message: str, script: Script) -> None:
        super().__init__(message)
        self.script = script


@dataclass(frozen=True, slots=True)
class Answer:
    script: Script
    recalled: int = 0
    """How many turns with calls came back with all that the vendor gave."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor's habit, and the settings by which an operator serves it."""

    name: str
    dialect: Dialect
    answer: Callable[[Json], Answer]
    """Raises Refused."""
    provider: str = ""
    model: str = ""
    thinking: Thinking = ""
    """How callers who know the model ask it to think; it does so by itself where this is empty."""


def refuse(message: str) -> Refused:
    """Refuse in the envelope of OpenAI and of those that imitate it."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return Refused(message, json_reply({"error": error}, 400))


def seal(vendor: str, *parts: object) -> str:
    """Make what only this vendor can have made: base64 of the length that vendors send."""
    name = " ".join(map(str, (vendor, *parts)))
    digests = [hashlib.sha512(f"{name} {number}".encode()).digest() for number in range(5)]
    return base64.b64encode(b"".join(digests)).decode()


def digest(vendor: str, *parts: object) -> str:
    return hashlib.sha256(seal(vendor, *parts).encode()).hexdigest()


def think(step: int) -> str:
    return f"Which cities are left in step {step}?"


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant's turn with calls, and the results that came back for them."""

    ids: tuple[str, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    whole: Any
    """The caller's copy of the turn: a message, or a list of blocks or items."""

    def tell(self) -> list[str]:
        cities = [json.loads(one).get("city", "shell") for one in self.arguments]
        return [f"{city}: {result}" for city, result in zip(cities, self.results, strict=True)]


def summarise(turns: Sequence[Turn]) -> str:
    """Make the last words from all results, so that a lost or swapped one shows."""
    return "; ".join(line for turn in turns for line in turn.tell())


def go_on(request: Json, turns: Sequence[Turn]) -> tuple[int, str, list[tuple[str, Json]]]:
    """Return the step of the conversation, the vendor's words, and its calls: tools and arguments.

    The tool is the weather, or the shell of a coding agent; without one the step is the last.
    """
    tools = (tool.get("function") or tool for tool in request.get("tools") or [])
    offered = {tool.get("name") for tool in tools}
    name = next((name for name in TOOLS if name in offered), None)
    if name is None or len(turns) >= LAST:
        return LAST, summarise(turns), []
    step = len(turns)
    return step, "" if step else OPENING, [(name, TOOLS[name](city)) for city in STEPS[step]]


def find_steps(make_id: Callable[[int, int], str]) -> Mapping[str, int]:
    """Map the first call's id of each of the vendor's turns to the turn's number."""
    return {make_id(step, 0): step for step in range(len(STEPS))}
