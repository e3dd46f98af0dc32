"""Vendors of the chat dialect whose thoughts must come back: Gemini, DeepSeek, Kimi, OpenRouter."""

from __future__ import annotations

from typing import Any, Final

from tests.agents.vendors.base import STEPS, TOOL, Refused, Turn, digest, refuse, seal, think
from tests.agents.vendors.chat import Habit, serve
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
    for name in request.keys() & UNKNOWN_TO_GEMINI:
        raise _refuse_as_google(
            f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
        )
    known = {PLACEHOLDER, *(seal("gemini", step) for step in range(len(STEPS)))}
    for turn in turns:
        google = (turn.whole["tool_calls"][0].get("extra_content") or {}).get("google") or {}
        signature = google.get("thought_signature")
        if not signature:
            place = request["messages"].index(turn.whole) + 1
            raise _refuse_as_google(
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                "degraded model performance. Additional data, function call "
                f"`default_api:{TOOL}` , position {place}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
            )
        if signature not in known:
            raise _refuse_as_google("Corrupted thought signature.")


def _write_at_zero(calls: list[Json]) -> list[Json]:
    """Write each call whole, all at index 0, as Gemini does."""
    return [{"tool_calls": [{**call, "index": 0}]} for call in calls]


def _give_reasoning(step: int) -> Json:
    return {"reasoning_content": think(step)}


def _check_deepseek(request: Json, turns: list[Turn]) -> None:
    """Refuse a turn without its thoughts: opencode#24135, mnfst/modelparams.dev#29."""
    del request
    if any(not turn.whole.get("reasoning_content") for turn in turns):
        raise refuse(
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            code="invalid_request_error",
        )


def _number_kimi(step: int, number: int) -> str:
    """Count all calls of a conversation, as Kimi does."""
    return f"functions.{TOOL}:{sum(map(len, STEPS[:step])) + number}"


def _check_kimi(request: Json, turns: list[Turn]) -> None:
    """Refuse a turn without its thoughts: new-api#3121, mastra#12592."""
    for turn in turns:
        if not turn.whole.get("reasoning_content"):
            raise refuse(
                "thinking is enabled but reasoning_content is missing in assistant tool call "
                f"message at index {request['messages'].index(turn.whole)}"
            )


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
    check=_check_deepseek,
    wants=frozenset({"reasoning_content"}),
)
KIMI: Final = Habit(
    "kimi",
    _number_kimi,
    give=_give_reasoning,
    check=_check_kimi,
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
