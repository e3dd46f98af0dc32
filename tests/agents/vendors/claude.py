"""Anthropic's models: adaptive thinking, thinking with a budget, redacted thinking, and 4.7 or later."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from tests.agents.vendors.base import (
    HABITS,
    LAST,
    Answer,
    Refused,
    Thinking,
    Turn,
    Vendor,
    digest,
    go_on,
    seal,
    think,
)
from tests.support import messages
from tests.support.replies import Json, dumps, json_reply, sse_reply

ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
SAMPLING: Final = ("temperature", "top_p", "top_k")


def refuse(message: str) -> Refused:
    error = {"type": "invalid_request_error", "message": message}
    return Refused(message, json_reply({"type": "error", "error": error}, 400))


@dataclass(frozen=True, slots=True)
class Claude:
    """A model: the mode of thinking that it takes, and what it makes of its thoughts."""

    name: str
    mode: Thinking
    redacts: bool = False
    samples: bool = True
    """True if the model takes a temperature."""

    def answer(self, request: Json) -> Answer:
        self._check_request(request)
        dialogue = [(one["role"], _read_blocks(one["content"])) for one in request["messages"]]
        self._check_thoughts(request, dialogue)
        _check_calls(dialogue)
        turns = _read_turns(dialogue)
        content = self._make_content(request, turns)
        stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
        # Claude Code takes messages of one id for parts of one turn.
        whole = messages.make_message(
            content, stop=stop, id=f"msg_{digest(self.name, len(dialogue)):.24}"
        )
        if request.get("stream"):
            start, *rest = messages.make_events(content, stop=stop)
            start["message"]["id"] = whole["id"]
            script = sse_reply(messages.frames([start, *rest]), done=False)
        else:
            script = json_reply(whole)
        return Answer(script, sum(map(self._is_whole, turns)))

    def _check_request(self, request: Json) -> None:
        """Refuse by the parameters alone.

        Forced tools: mastra#7507, oh-my-pi#341. Sampling: pr-agent#2456, BoltAI#410. Modes of
        thinking: Everywhere#410, pensarai/apex#890.
        """
        mode = (request.get("thinking") or {}).get("type", "disabled")
        forced = (request.get("tool_choice") or {}).get("type") in {"any", "tool"}
        if mode != "disabled" and forced:
            raise refuse("Thinking may not be enabled when tool_choice forces tool use.")
        if mode == "adaptive" and self.mode == "enabled":
            raise refuse("adaptive thinking is not supported on this model")
        if mode == "enabled" and not self.samples:
            raise refuse('"thinking.type.enabled" is not supported for this model.')
        if mode == "enabled" and request["max_tokens"] <= request["thinking"]["budget_tokens"]:
            raise refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if self.mode == "enabled" and (request.get("output_config") or {}).get("effort"):
            raise refuse("This model does not support the effort parameter.")
        self._check_sampling(request, mode)
        last = _read_blocks(request["messages"][-1]["content"])[-1].get("text", "")
        if request["messages"][-1]["role"] == "assistant" and last != last.rstrip():
            raise refuse("messages: final assistant content cannot end with trailing whitespace")
        for tool in request.get("tools") or []:
            if {"allOf", "anyOf", "oneOf"} & tool.get("input_schema", {}).keys():
                raise refuse(
                    "input_schema does not support oneOf, allOf, or anyOf at the top level"
                )

    def _check_sampling(self, request: Json, mode: str) -> None:
        for name in SAMPLING:
            if name in request and not self.samples:
                raise refuse(f"`{name}` is deprecated for this model.")
        if mode != "disabled" and (request.get("temperature", 1) != 1 or "top_k" in request):
            raise refuse("`temperature` may only be set to 1 when thinking is enabled.")
        if {"temperature", "top_p"} <= request.keys():
            raise refuse("`temperature` and `top_p` cannot both be specified for this model.")

    def _check_thoughts(self, request: Json, dialogue: list[tuple[str, list[Json]]]) -> None:
        """Refuse foreign thoughts, and with a budget a turn with calls that begins without one.

        Signatures: claude-code#10627. Redacted data: microsoft/vscode#320196. The beginning:
        Roo-Code#10351, zed#33317, openai-agents-python#678.
        """
        for place, (_, blocks) in enumerate(dialogue):
            for number, block in enumerate(blocks):
                self._check_thought(f"messages.{place}.content.{number}", block)
        if (request.get("thinking") or {}).get("type") != "enabled":
            return
        for (place, (role, blocks)), (_, (_, after)) in pairwise(enumerate(dialogue)):
            is_open = place == len(dialogue) - 2 and after[0]["type"] == "tool_result"
            kind = blocks[0]["type"]
            if role == "assistant" and is_open and "thinking" not in kind:
                raise refuse(
                    f"messages.{place}.content.0.type: Expected `thinking` or `redacted_thinking`"
                )

    def _check_thought(self, where: str, block: Json) -> None:
        # Signatures are good at all of Anthropic's platforms and models (its guide to thinking).
        made = [one._think(step) for one in FAMILY for step in range(LAST + 1)]
        match block["type"]:
            case "thinking" if block not in made:
                raise refuse(f"{where}: Invalid `signature` in `thinking` block")
            case "redacted_thinking" if block not in made:
                raise refuse(f"{where}: Invalid `data` in `redacted_thinking` block")
            case "text" if not block["text"].strip():
                raise refuse("messages: text content blocks must contain non-whitespace text")

    def _think(self, step: int) -> Json:
        if self.redacts:
            return {"type": "redacted_thinking", "data": seal(self.name, step)}
        return {"type": "thinking", "thinking": think(step), "signature": seal(self.name, step)}

    def _make_id(self, step: int, number: int, *, thinks: bool) -> str:
        return f"toolu_{digest(self.name, step, number, thinks):.24}"

    def _make_content(self, request: Json, turns: list[Turn]) -> list[Json]:
        thinks = (request.get("thinking") or {}).get("type") in {"adaptive", "enabled"}
        step, said, calls = go_on(request, turns)
        thoughts = [self._think(step)] if thinks else []
        words = [messages.text(said)] if said else []
        blocks = [
            messages.call(self._make_id(step, number, thinks=thinks), *call)
            for number, call in enumerate(calls)
        ]
        return [*thoughts, *words, *blocks]

    def _is_whole(self, turn: Turn) -> bool:
        """Return whether a turn has the thought that was given with it, if there was one."""
        for step in range(LAST):
            for thinks in (False, True):
                if turn.ids[0] == self._make_id(step, 0, thinks=thinks):
                    return not thinks or self._think(step) in turn.whole
        return False


def _read_blocks(content: Any) -> list[Json]:
    return [messages.text(content)] if isinstance(content, str) else content


def _check_calls(dialogue: list[tuple[str, list[Json]]]) -> None:
    """Refuse ids that are odd or used before, and results that do not fit: maximhq/bifrost#5097, Anthropic's guide to tools."""
    after: list[tuple[str, list[Json]]] = [*dialogue[1:], ("user", [])]
    before, used = set[str](), list[str]()
    for place, ((_, blocks), (_, following)) in enumerate(zip(dialogue, after, strict=True)):
        for number, block in enumerate(blocks):
            if block["type"] == "tool_result" and block["tool_use_id"] not in before:
                raise refuse(f"messages.{place}.content.{number}: unexpected `tool_use_id`")
            if block["type"] == "tool_use" and not ID.fullmatch(block["id"]):
                raise refuse(f"messages.{place}.content.{number}.id: String should match pattern")
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        used += called
        if len({*used}) < len(used):
            raise refuse(f"messages.{place}: `tool_use` ids must be unique")
        before = {*called}
        given = {one["tool_use_id"] for one in following if one["type"] == "tool_result"}
        if before - given:
            raise refuse(f"messages.{place}: `tool_use` ids without `tool_result` blocks")


def _read_turns(dialogue: list[tuple[str, list[Json]]]) -> list[Turn]:
    turns = []
    for (_, blocks), (_, after) in pairwise(dialogue):
        calls = [block for block in blocks if block["type"] == "tool_use"]
        results = {one.get("tool_use_id"): _read_text(one.get("content")) for one in after}
        if calls:
            ids = tuple(one["id"] for one in calls)
            arguments = tuple(dumps(one["input"]).decode() for one in calls)
            turns.append(Turn(ids, arguments, tuple(results[one] for one in ids), blocks))
    return turns


def _read_text(content: Any) -> str:
    return "".join(one["text"] for one in _read_blocks(content or []))


def _serve(name: str, *, model: str, **habit: Any) -> tuple[Claude, Vendor]:
    claude = Claude(name, **habit)
    return claude, Vendor(name, "messages", claude.answer, model=model, thinking=claude.mode)


FAMILY, CLAUDES = zip(
    *(_serve(name, **habit) for name, habit in HABITS["messages"].items()), strict=True
)
