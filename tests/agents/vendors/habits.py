"""Vendors of the chat dialect: those whose thoughts must come back, OpenAI, and those that want nothing back."""

from __future__ import annotations

import re
from typing import Any, Final

from openai.types import chat
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.agents.vendors.base import STEPS, TOOL, Refused, Turn, digest, refuse, seal, think
from tests.agents.vendors.chat import Habit, serve, write_calls
from tests.support.messages import halve
from tests.support.replies import Json, json_reply

PLACEHOLDER: Final = "skip_thought_signature_validator"

"""Google's own stand-in for the signature of a call that Gemini did not make."""

UNKNOWN_TO_GEMINI: Final = frozenset(
    {"extra_content", "frequency_penalty", "metadata", "prompt_cache_key", "reasoning", "store"}
    | {"prompt_cache_retention", "safety_identifier", "service_tier", "thinking", "top_k"}
    | {"verbosity", "cache_control"}
)

TAKES_REASONING: Final = 'takes = ["reasoning_content"]'


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
    if unknown := request.keys() & UNKNOWN_TO_GEMINI:
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


def _give_reasoning(step: int) -> Json:
    return {"reasoning_content": think(step)}


def _check_thoughts(request: Json, turns: list[Turn]) -> None:
    """Refuse a turn without its thoughts.

    DeepSeek: opencode#24135, mnfst/modelparams.dev#29. Kimi: new-api#3121, mastra#12592.
    """
    del request
    if any(not turn.whole.get("reasoning_content") for turn in turns):
        raise refuse("The `reasoning_content` in the thinking mode must be passed back to the API.")


def _number_kimi(step: int, number: int) -> str:
    """Count all calls of a conversation, as Kimi does."""
    return f"functions.{TOOL}:{sum(map(len, STEPS[:step])) + number}"


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
        step, details = OPENROUTER.find_step(turn), turn.whole.get("reasoning_details")
        if details and (step is None or details != made[step]):
            raise refuse("Corrupted thought signature.")


GEMINI: Final = Habit(
    "gemini",
    lambda step, number: f"function-call-{int(digest('gemini', step, number), 16) % 10**19:019}",
    mark=_sign,
    check=_check_gemini,
    write_calls=_write_at_zero,
)

DEEPSEEK: Final = Habit(
    "deepseek",
    lambda step, number: f"call_{number:02}_{digest('deepseek', step, number)}",
    give=_give_reasoning,
    check=_check_thoughts,
    wants=frozenset({"reasoning_content"}),
)

KIMI: Final = Habit(
    "kimi",
    _number_kimi,
    give=_give_reasoning,
    check=_check_thoughts,
    wants=frozenset({"reasoning_content"}),
)

OPENROUTER: Final = Habit(
    "openrouter",
    lambda step, number: f"toolu_vrtx_{digest('openrouter', step, number)}",
    give=_give_details,
    check=_check_openrouter,
    write_given=_write_details,
    wants=frozenset({"reasoning_details"}),
)

THINKERS: Final = (
    serve(GEMINI, provider='takes = ["thought_signature"]'),
    serve(DEEPSEEK, provider=TAKES_REASONING),
    serve(KIMI, provider=TAKES_REASONING),
    serve(OPENROUTER),
)

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


def check(request: Json, turns: list[Turn]) -> None:
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


OPENAI_CHAT: Final = serve(
    Habit(
        "openai-chat",
        lambda step, number: f"call_{digest('openai-chat', step, number)}",
        check=check,
    ),
    provider='max_tokens_field = "max_completion_tokens"\nhistory = "openai"',
    model='reasoning = "none"\nleave_out = ["temperature", "top_p"]',
)

MISTRAL_ID: Final = re.compile(r"[a-zA-Z0-9]{9}")

MISTRAL_MEMBERS: Final = {
    "assistant": {"role", "content", "tool_calls", "prefix"},
    "system": {"role", "content"},
    "tool": {"role", "content", "tool_call_id", "name"},
    "user": {"role", "content"},
}


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
        for name in message.keys() - MISTRAL_MEMBERS[role]:
            raise _refuse_extra("body", "messages", place, role, name)
    for identity in (one for turn in turns for one in turn.ids):
        if not MISTRAL_ID.fullmatch(identity):
            text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of 9."
            error = {"object": "error", "message": text, "type": "invalid_function_call"}
            raise Refused(text, json_reply({**error, "param": None, "code": "3280"}, 400))


def _give_parts(step: int) -> Json:
    thought = [{"type": "text", "text": think(step)}]
    return {"content": [{"type": "thinking", "thinking": thought}]}


def _write_whole(calls: list[Json]) -> list[Json]:
    """Write all calls at once, without index and type."""
    bare = [{name: call[name] for name in ("id", "function")} for call in calls]
    return [{"tool_calls": bare}] if bare else []


def _write_with_empty_ids(calls: list[Json]) -> list[Json]:
    return [{"tool_calls": [{"id": "", **delta["tool_calls"][0]}]} for delta in write_calls(calls)]


MISTRAL: Final = Habit(
    "mistral",
    lambda step, number: digest("mistral", step, number, length=9),
    give=_give_parts,
    check=_check_mistral,
    write_given=lambda given: [given],
    write_calls=_write_whole,
)

QWEN: Final = Habit(
    "qwen",
    lambda step, number: f"call_{digest('qwen', step, number)}",
    give=_give_reasoning,
    write_calls=_write_with_empty_ids,
)

VLLM: Final = Habit(
    "vllm",
    lambda step, number: f"chatcmpl-tool-{digest('vllm', step, number, length=32)}",
    give=lambda step: {"reasoning": think(step)},
)

PLAIN: Final = Habit("plain", lambda step, number: f"call_{step}{number}")

FORGETFUL: Final = (
    serve(MISTRAL, provider='history = "mistral"'),
    serve(QWEN),
    serve(VLLM),
    serve(PLAIN),
)
