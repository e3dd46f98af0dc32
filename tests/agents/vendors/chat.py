"""Vendors of the chat dialect: those whose thoughts must come back, OpenAI, and those that want nothing back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openai.types import chat
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.agents.vendors.base import (
    HABITS,
    LAST,
    STEPS,
    Answer,
    Refused,
    Turn,
    Vendor,
    digest,
    find_steps,
    go_on,
    refuse,
    seal,
    think,
)
from tests.support.messages import halve
from tests.support.replies import USAGE, Json, chunk, completion, dumps, json_reply, sse_reply


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
    id: str
    gives: str = ""
    wants: Sequence[str] = ()
    check: Callable[[Json, list[Turn]], None] = check_nothing
    """Raises Refused for a request or a history that the vendor does not take."""
    give: Callable[[int], Json] | None = None
    """The members of a message in each step: its thoughts, in the vendor's own way."""
    mark: Callable[[int], Json] = lambda _: {}
    """The members of the first call of a step."""
    write_given: Callable[[Json], list[Json]] = write_members
    write_calls: Callable[[list[Json]], list[Json]] = write_calls

    def make_id(self, step: int, number: int) -> str:
        whole = digest(self.name, step, number)
        return self.id.format(
            step=step,
            number=number,
            digest=whole,
            decimal=int(whole[:24], 16) % 10**19,
            count=sum(map(len, STEPS[:step])) + number,
        )

    def think(self, step: int) -> Json:
        if self.give is not None:
            return self.give(step)
        return {self.gives: think(step)} if self.gives else {}

    def answer(self, request: Json) -> Answer:
        turns = read_turns(request["messages"])
        self.check(request, turns)
        step, said, asked = go_on(request, turns)
        given, text, calls = self.think(step), said or None, self._call(step, asked)
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
        first, marks, given = turn.whole["tool_calls"][0], self.mark(step), self.think(step)
        kept = all(turn.whole.get(name) == given[name] for name in self.wants)
        return kept and all(first.get(name) == value for name, value in marks.items())

    def _call(self, step: int, asked: Sequence[tuple[str, Json]]) -> list[Json]:
        return [
            {
                "id": self.make_id(step, number),
                "type": "function",
                "function": {"name": name, "arguments": dumps(arguments).decode()},
                **({} if number else self.mark(step)),
            }
            for number, (name, arguments) in enumerate(asked)
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


PLACEHOLDER: Final = "skip_thought_signature_validator"
"""Google's own stand-in for the signature of a call that Gemini did not make."""


def _refuse_as_google(message: str) -> Refused:
    error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
    return Refused(message, json_reply([{"error": error}], 400))


def _sign(step: int) -> Json:
    return {"extra_content": {"google": {"thought_signature": seal("gemini", step)}}}


def _check_gemini(request: Json, turns: list[Turn]) -> None:
    """Refuse unknown fields, and a first call without a signature that can be read.

    Fields: openhanako#394, cursor-byok#112. Missing: langroid#969, openai-python#2758. Foreign:
    gemini-cli#13467. The placeholder: ai.google.dev/gemini-api/docs/thought-signatures.
    """
    if unknown := request.keys() & {*HABITS["chat"]["gemini"]["unknown"]}:
        raise _refuse_as_google(f"Invalid JSON payload: unknown names {unknown}")
    known = {PLACEHOLDER, *(seal("gemini", step) for step in range(len(STEPS)))}
    for turn in turns:
        google = (turn.whole["tool_calls"][0].get("extra_content") or {}).get("google") or {}
        signature = google.get("thought_signature")
        if not signature:
            raise _refuse_as_google("Function call is missing a thought_signature.")
        if signature not in known:
            raise _refuse_as_google("Corrupted thought signature.")


def _write_at_zero(calls: list[Json]) -> list[Json]:
    """Write each call whole, all at index 0, as Gemini does."""
    return [{"tool_calls": [{**call, "index": 0}]} for call in calls]


def _check_thoughts(request: Json, turns: list[Turn]) -> None:
    """Refuse a turn without its thoughts.

    DeepSeek: opencode#24135, mnfst/modelparams.dev#29. Kimi: new-api#3121, mastra#12592.
    """
    del request
    if any(not turn.whole.get("reasoning_content") for turn in turns):
        raise refuse("The `reasoning_content` in the thinking mode must be passed back to the API.")


def _give_details(step: int) -> Json:
    text = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    sealed = {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 1}
    return {
        "reasoning": think(step),
        "reasoning_details": [
            {**text, "text": think(step), "signature": seal("openrouter", step)},
            {**sealed, "data": seal("openrouter", "sealed", step)},
        ],
    }


def _write_details(given: Json) -> list[Json]:
    """Write the details in fragments that share an index, the signature last: agno#8794."""
    text, sealed = given["reasoning_details"]
    base = {name: text[name] for name in ("type", "format", "index")}
    fragments: list[Json] = [
        {"reasoning": part, "reasoning_details": [base | {"text": part}]}
        for part in halve(text["text"])
    ]
    fragments.append({"reasoning_details": [base | {"signature": text["signature"]}]})
    return [*fragments, {"reasoning_details": [sealed]}]


def _check_openrouter(request: Json, turns: list[Turn]) -> None:
    """Refuse details that did not come back whole and in order: agno#8794, agno#5802."""
    made: list[Any] = [_give_details(step)["reasoning_details"] for step in range(len(STEPS) + 1)]
    for message in request["messages"]:
        details = message.get("reasoning_details")
        if details and details not in made:
            place = request["messages"].index(message)
            raise refuse(f"messages.{place}.content.0: Invalid `signature` in `thinking` block")
    for turn in turns:
        details, step = turn.whole.get("reasoning_details"), HABIT_OF["openrouter"].find_step(turn)
        if details and (step is None or details != made[step]):
            raise refuse("Corrupted thought signature.")


FIELDS: Final = {*CompletionCreateParamsBase.__annotations__, "stream"}

MEMBERS: Final = {
    role: set(kind.__annotations__)
    for role, kind in {
        "assistant": chat.ChatCompletionAssistantMessageParam,
        "developer": chat.ChatCompletionDeveloperMessageParam,
        "system": chat.ChatCompletionSystemMessageParam,
        "tool": chat.ChatCompletionToolMessageParam,
        "user": chat.ChatCompletionUserMessageParam,
    }.items()
}

CALL_MEMBERS: Final = set(chat.ChatCompletionMessageFunctionToolCallParam.__annotations__)

MAX_ID_CHARS: Final = 40


def _check_openai(request: Json, turns: list[Turn]) -> None:
    """Refuse what GPT-5.x does not take.

    Parameters: OpenAI's guide to GPT-5. An effort beside tools: openai-openapi#541,
    charmbracelet/crush#2913.
    """
    for name in request.keys() - FIELDS:
        raise refuse(f"Unknown parameter: '{name}'.")
    if request.get("max_tokens") is not None:
        raise refuse("Unsupported parameter: 'max_tokens' is not supported with this model.")
    for name in ("temperature", "top_p"):
        if (value := request.get(name)) not in (None, 1):
            raise refuse(f"Unsupported value: '{name}' does not support {value} with this model.")
    if request.get("tools") and request.get("reasoning_effort") not in (None, "none"):
        raise refuse("Function tools with reasoning_effort: please use /v1/responses.")
    _check_messages(request["messages"])
    del turns


def _check_messages(messages: list[Json]) -> None:
    """Refuse unknown members and long ids: camel-ai/camel#2215, autogen#6377."""
    for place, message in enumerate(messages):
        _check_members(f"messages[{place}]", message, MEMBERS[message["role"]])
        for number, call in enumerate(message.get("tool_calls") or []):
            where = f"messages[{place}].tool_calls[{number}]"
            _check_members(where, call, CALL_MEMBERS)
            if len(call["id"]) > MAX_ID_CHARS:
                raise refuse(f"Invalid '{where}.id': string too long.")


def _check_members(where: str, value: Json, known: set[str]) -> None:
    for name in value.keys() - known:
        raise refuse(f"Unknown parameter: '{where}.{name}'.")


MISTRAL_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")


def _refuse_extra(*place: object) -> Refused:
    detail = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
    error = {"object": "error", "message": {"detail": [detail]}, "code": None}
    return Refused(f"{place}: Extra inputs are not permitted", json_reply(error, 422))


def _check_mistral(request: Json, turns: list[Turn]) -> None:
    """Refuse unknown members and long ids: crush#1590, litellm#30835, eca#231, ironclaw#1241."""
    if "max_completion_tokens" in request:
        raise _refuse_extra("body", "max_completion_tokens")
    for place, message in enumerate(request["messages"]):
        role = message["role"]
        for name in message.keys() - {*HABITS["chat"]["mistral"]["members"][role]}:
            raise _refuse_extra("body", "messages", place, role, name)
    for identity in (one for turn in turns for one in turn.ids):
        if not MISTRAL_ID.fullmatch(identity):
            text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of 9."
            error = {"object": "error", "message": text, "type": "invalid_function_call"}
            raise Refused(text, json_reply({**error, "param": None, "code": "3280"}, 400))


PLAIN_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_ids(request: Json, turns: list[Turn]) -> None:
    """Refuse what the servers in front of many models do: ids of odd characters, long or used before."""
    del request
    ids = [one for turn in turns for one in turn.ids]
    for identity in ids:
        if not PLAIN_ID.fullmatch(identity):
            raise refuse(f"Invalid tool call id: '{identity}' does not match the pattern.")
    if len(set(ids)) < len(ids):
        raise refuse("Tool call ids must be unique.")


def _give_parts(step: int) -> Json:
    thought = [{"type": "text", "text": think(step)}]
    return {"content": [{"type": "thinking", "thinking": thought}]}


def _write_whole(calls: list[Json]) -> list[Json]:
    """Write all calls at once, without index and type."""
    bare = [{name: call[name] for name in ("id", "function")} for call in calls]
    return [{"tool_calls": bare}] if bare else []


def _write_with_empty_ids(calls: list[Json]) -> list[Json]:
    return [{"tool_calls": [{"id": "", **delta["tool_calls"][0]}]} for delta in write_calls(calls)]


OWN: Final[dict[str, dict[str, Any]]] = {
    "gemini": {"mark": _sign, "check": _check_gemini, "write_calls": _write_at_zero},
    "deepseek": {"check": _check_thoughts},
    "kimi": {"check": _check_thoughts},
    "openrouter": {
        "give": _give_details,
        "check": _check_openrouter,
        "write_given": _write_details,
    },
    "openai-chat": {"check": _check_openai},
    "mistral": {
        "give": _give_parts,
        "check": _check_mistral,
        "write_given": lambda given: [given],
        "write_calls": _write_whole,
    },
    "strict": {"check": _check_ids},
    "qwen": {"write_calls": _write_with_empty_ids},
}
"""Rules of a vendor that a table of words cannot say."""


HABIT_OF: Final = {
    name: Habit(
        name,
        **{one: table[one] for one in ("id", "gives", "wants") if one in table},
        **OWN.get(name, {}),
    )
    for name, table in HABITS["chat"].items()
}
CHATTERS: Final = [
    Vendor(name, "chat", HABIT_OF[name].answer, table.get("provider", ""), table.get("model", ""))
    for name, table in HABITS["chat"].items()
]
