"""Basis of the vendors of the chat dialect: read a history, write a reply by a habit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.agents.vendors.base import (
    LAST,
    OPENING,
    STEPS,
    Answer,
    Turn,
    Vendor,
    find_steps,
    make_call,
    pick_step,
    refuse,
    summarise,
)
from tests.support.messages import halve
from tests.support.replies import USAGE, Json, chunk, completion, dumps, json_reply, sse_reply


def give_nothing(step: int) -> Json:  # noqa: ARG001 - some vendors give something in each step
    return {}


def check_nothing(request: Json, turns: list[Turn]) -> None: ...


def write_calls(calls: list[Json]) -> list[Json]:
    """Write OpenAI's fragments: a call's name first, then its arguments in pieces."""
    deltas = []
    for index, call in enumerate(calls):
        arguments = call["function"]["arguments"]
        opened = {**call, "index": index, "function": call["function"] | {"arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in halve(arguments)
        ]
    return deltas


def write_members(given: Json) -> list[Json]:
    """Write what a vendor gives beside the words: texts in pieces."""
    return [{name: part} for name, text in given.items() for part in halve(text)]


@dataclass(frozen=True, slots=True)
class Habit:
    """How a vendor of the chat dialect differs from the others."""

    name: str
    make_id: Callable[[int, int], str]
    give: Callable[[int], Json] = give_nothing
    """The members of a message in each step: its thoughts, in the vendor's own way."""
    mark: Callable[[int], Json] = give_nothing
    """The members of the first call of a step."""
    check: Callable[[Json, list[Turn]], None] = check_nothing
    """Raises Refused for a request or a history that the vendor does not take."""
    write_given: Callable[[Json], list[Json]] = write_members
    write_calls: Callable[[list[Json]], list[Json]] = write_calls
    wants: frozenset[str] = field(default_factory=frozenset)
    """The members that are to come back."""

    def answer(self, request: Json) -> Answer:
        turns = read_turns(request["messages"])
        self.check(request, turns)
        step = pick_step(request, turns)
        given, text, calls = self.give(step), self._say(step, turns), self._call(request, step)
        finish = "stop" if step == LAST else "tool_calls"
        if request.get("stream"):
            script = sse_reply(self._write_chunks(given, text, calls, finish))
        else:
            message = {"role": "assistant", "content": text, **given}
            if text and "content" in given:
                message["content"] = [*given["content"], {"type": "text", "text": text}]
            if calls:
                message["tool_calls"] = calls
            whole = completion()
            whole["choices"][0] |= {"message": message, "finish_reason": finish}
            script = json_reply(whole)
        return Answer(script, sum(map(self.is_whole, turns)))

    def find_step(self, turn: Turn) -> int | None:
        """Return the step of a turn that the vendor made itself."""
        return find_steps(self.make_id).get(turn.ids[0])

    def is_whole(self, turn: Turn) -> bool:
        """Return whether a turn is the vendor's own, with all that it wants back."""
        step = self.find_step(turn)
        if step is None:
            return False
        first, marks, given = turn.whole["tool_calls"][0], self.mark(step), self.give(step)
        kept = all(turn.whole.get(name) == given[name] for name in self.wants)
        return kept and all(first.get(name) == value for name, value in marks.items())

    def _say(self, step: int, turns: list[Turn]) -> str | None:
        return summarise(turns) if step == LAST else OPENING if step == 0 else None

    def _call(self, request: Json, step: int) -> list[Json]:
        calls = [make_call(request, city) for city in STEPS[step]] if step < LAST else []
        return [
            {
                "id": self.make_id(step, number),
                "type": "function",
                "function": {"name": name, "arguments": dumps(arguments).decode()},
                **({} if number else self.mark(step)),
            }
            for number, (name, arguments) in enumerate(calls)
        ]

    def _write_chunks(
        self, given: Json, text: str | None, calls: list[Json], finish: str
    ) -> list[Json]:
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += self.write_given(given)
        deltas += [{"content": part} for part in halve(text or "")]
        chunks = [chunk(delta) for delta in deltas + self.write_calls(calls)]
        return [*chunks, chunk({}, finish=finish), chunk(None, usage=USAGE)]


def read_turns(messages: list[Json]) -> list[Turn]:
    """Read the turns with calls; each must be followed by the results of all of them.

    The texts are OpenAI's, which the others imitate: OpenAI's community, topic 1286190.
    """
    turns, opened, results = [], Json(), dict[str, str]()
    for message in [*messages, {"role": "end"}]:
        ids = [call["id"] for call in opened.get("tool_calls") or []]
        if message["role"] == "tool":
            if message["tool_call_id"] not in ids:
                raise refuse(
                    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                )
            results[message["tool_call_id"]] = read_text(message["content"])
            continue
        if any(one not in results for one in ids):
            raise refuse("The following tool_call_ids did not have response messages")
        if ids:
            arguments = tuple(call["function"]["arguments"] for call in opened["tool_calls"])
            turns.append(Turn(tuple(ids), arguments, tuple(map(results.__getitem__, ids)), opened))
        opened, results = message, {}
    return turns


def read_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content or [])


def serve(habit: Habit, *, provider: str = "", model: str = "") -> Vendor:
    return Vendor(habit.name, "chat", habit.answer, provider, model)
