"""OpenAI's reasoning models: stateless Responses, and chat completions."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from openai.types.responses import (
    ResponseFunctionToolCallParam,
    ResponseOutputMessageParam,
    ResponseReasoningItemParam,
)
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_input_param import FunctionCallOutput

from tests.agents.vendors.base import (
    LAST,
    Answer,
    Turn,
    Vendor,
    digest,
    find_steps,
    go_on,
    refuse,
    seal,
    think,
)
from tests.support import responses
from tests.support.replies import Json, json_reply, sse_reply

NAME: Final = "openai-responses"
COMMENTARY: Final = "commentary"
"""The phase of what is said before calls: the model does worse if it does not come back."""
ENCRYPTED: Final = "reasoning.encrypted_content"
FIELDS: Final = {*ResponseCreateParamsBase.__annotations__, "stream"}
MAX_CALL_ID_CHARS: Final = 64
MIN_OUTPUT_TOKENS: Final = 16
MEMBERS: Final = {
    "function_call": {*ResponseFunctionToolCallParam.__annotations__},
    "function_call_output": {*FunctionCallOutput.__annotations__},
    "message": {*ResponseOutputMessageParam.__annotations__},
    "reasoning": {*ResponseReasoningItemParam.__annotations__},
}
"""The members of an item by its type."""
PREFIXES: Final = {"reasoning": "rs", "function_call": "fc", "message": "msg"}


def _make_id(step: int, number: int) -> str:
    return f"call_{digest(NAME, step, number):.24}"


STEP_OF: Final = find_steps(_make_id)
SEALED: Final = {f"gAAAA{seal(NAME, step)}": step for step in range(LAST + 1)}
SEALS: Final = {step: sealed for sealed, step in SEALED.items()}


def _name(kind: str, step: int, number: int = 0) -> str:
    """Make the id of an item, which tells the reasoning item that it needs."""
    return f"{kind}_{digest(NAME, 'item', step):.24}{number:02}"


def answer(request: Json) -> Answer:
    items = _read_items(request)
    _check_request(request)
    for place, item in enumerate(items):
        _check_item(request, items, place, item)
    turns = _read_turns(items)
    output = _make_output(request, turns)
    if request.get("stream"):
        script = sse_reply(responses.frames(responses.make_events(output)), done=False)
    else:
        script = json_reply(responses.make_response(output))
    return Answer(script, sum(map(_is_whole, turns)))


def _read_items(request: Json) -> list[Json]:
    given = request["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _check_request(request: Json) -> None:
    """Refuse what the parameters alone forbid.

    The limit: vectorize-io/hindsight#58. The sampling: OpenAI's guide to GPT-5. What is not kept:
    maximhq/bifrost#2441.
    """
    for name in request.keys() - FIELDS:
        raise refuse(f"Unknown parameter: '{name}'.")
    if previous := request.get("previous_response_id"):
        raise refuse(f"Previous response with id '{previous}' not found.")
    limit = request.get("max_output_tokens")
    if limit is not None and limit < MIN_OUTPUT_TOKENS:
        raise refuse("Invalid 'max_output_tokens': integer below minimum value.")
    for name in ("temperature", "top_p"):
        if request.get(name) not in (None, 1):
            raise refuse(f"Unsupported parameter: '{name}' is not supported with this model.")


def _check_members(items: list[Json], place: int, item: Json) -> None:
    """Refuse what is not kept, unknown members and an id used twice.

    Members: openai/openai-python#2720. Ids: earendil-works/pi#5165.
    """
    kind, identity = item.get("type", "message"), item.get("id")
    if kind == "item_reference":
        raise refuse(f"Item with id '{identity}' not found.")
    for name in item.keys() - MEMBERS.get(kind, item.keys()):
        raise refuse(f"Unknown parameter: 'input[{place}].{name}'.")
    prefix = PREFIXES.get(kind)
    if prefix and identity is not None and not identity.startswith(prefix):
        raise refuse(f"Invalid 'input[{place}].id': '{identity}'.")
    if identity is not None and identity in [one.get("id") for one in items[:place]]:
        raise refuse(f"Duplicate item found with id {identity}.")


def _check_item(request: Json, items: list[Json], place: int, item: Json) -> None:
    _check_members(items, place, item)
    kind = item.get("type", "message")
    match kind:
        case "reasoning":
            _check_reasoning(request, items, place, item)
        case "function_call":
            _check_call_id(place, item)
            _check_companion(items, item)
            if item["call_id"] not in _find_ids(items, "function_call_output"):
                raise refuse(f"No tool output found for function call {item['call_id']}.")
        case "function_call_output":
            _check_call_id(place, item)
            if item["call_id"] not in _find_ids(items[:place], "function_call"):
                raise refuse(
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
        case "message" if item["role"] == "assistant":
            _check_companion(items, item)


def _find_ids(items: list[Json], kind: str) -> set[str]:
    return {one["call_id"] for one in items if one.get("type") == kind}


def _check_reasoning(request: Json, items: list[Json], place: int, item: Json) -> None:
    """Refuse reasoning that cannot be read.

    Not found: vercel/ai#7543, opencode#7724. Not verified: openai/codex#8119, EchoBird#255.
    Nothing behind it: continuedev/continue#8933.
    """
    sealed, identity = item.get("encrypted_content"), item.get("id")
    if not sealed and request.get("store") is False:
        raise refuse(f"Item with id '{identity}' not found.")
    if sealed and sealed not in SEALED:
        raise refuse(f"The encrypted content {sealed[:4]}...{sealed[-4:]} could not be verified.")
    if "summary" not in item:
        raise refuse(f"Missing required parameter: 'input[{place}].summary'.")
    after = items[place + 1] if place + 1 < len(items) else {}
    if not _is_ours(after):
        raise refuse(f"Item '{identity}' was provided without its required following item.")


def _check_call_id(place: int, item: Json) -> None:
    """Refuse a long id: AnswerDotAI/fastllm#45."""
    if len(item["call_id"]) > MAX_CALL_ID_CHARS:
        raise refuse(f"Invalid 'input[{place}].call_id': string too long.")


def _check_companion(items: list[Json], item: Json) -> None:
    """Refuse an item that was made behind reasoning which was left out.

    Sources: agency-swarm#367, mastra#8738; for messages continuedev/continue#12620.
    """
    made = {
        _name(prefix, step, number): _name("rs", step)
        for prefix in ("fc", "msg")
        for step in range(LAST + 1)
        for number in range(2)
    }
    needed = made.get(item.get("id", ""))
    given = [
        one for one in items if one.get("type") == "reasoning" and one.get("encrypted_content")
    ]
    step = next((step for step in range(LAST + 1) if _name("rs", step) == needed), None)
    if needed and not any(SEALED.get(one["encrypted_content"]) == step for one in given):
        raise refuse(
            f"Item '{item['id']}' was provided without its required 'reasoning' item: '{needed}'."
        )


def _is_ours(item: Json) -> bool:
    """Return whether an item is one of the assistant's."""
    return item.get("type") in {"reasoning", "function_call"} or item.get("role") == "assistant"


def _read_turns(items: list[Json]) -> list[Turn]:
    results = {one["call_id"]: one["output"] for one in items if "output" in one}
    turns = []
    for ours, group in groupby(items, _is_ours):
        whole = list(group)
        calls = [one for one in whole if one.get("type") == "function_call"]
        if ours and calls:
            ids = tuple(one["call_id"] for one in calls)
            told = tuple(_read_text(results[one]) for one in ids)
            turns.append(Turn(ids, tuple(one["arguments"] for one in calls), told, whole))
    return turns


def _read_text(output: Any) -> str:
    return output if isinstance(output, str) else "".join(part["text"] for part in output)


def _is_whole(turn: Turn) -> bool:
    step = STEP_OF.get(turn.ids[0])
    sealed = [one.get("encrypted_content") for one in turn.whole if one.get("type") == "reasoning"]
    phases = {one.get("phase") for one in turn.whole if one.get("role") == "assistant"}
    return step is not None and sealed == [SEALS[step]] and phases <= {COMMENTARY}


def _make_output(request: Json, turns: list[Turn]) -> list[Json]:
    step, said, calls = go_on(request, turns)
    thought = responses.reasoning(think(step), _name("rs", step))
    if not (request.get("reasoning") or {}).get("summary"):
        thought["summary"] = []
    if ENCRYPTED in (request.get("include") or []):
        thought["encrypted_content"] = SEALS[step]
    phase = COMMENTARY if calls else "final_answer"
    words = [{**responses.text(said, _name("msg", step)), "phase": phase}] if said else []
    items = [
        responses.call(_make_id(step, number), *call, _name("fc", step, number))
        for number, call in enumerate(calls)
    ]
    return [thought, *words, *items]


OPENAI_RESPONSES: Final = Vendor(
    NAME, "responses", answer, model='reasoning = "effort"', thinking="adaptive"
)
