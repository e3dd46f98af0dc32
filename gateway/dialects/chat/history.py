"""Earlier turns as chat upstreams want them back, whoever made them.

Gemini signs calls (`extra_content`), OpenRouter gives `reasoning_details`, DeepSeek and Kimi want their
`reasoning_content` again; others refuse members that they did not send. `state` opens what was sealed.
"""

from __future__ import annotations

from operator import is_not
from typing import Final

from gateway.dialects.chat.content import read_reasoning
from gateway.dialects.chat.state import STATE, State, get_state, merge_details, open_state
from gateway.dialects.chat.tools import ARGUMENTS
from gateway.dialects.wire.call_ids import SHAPES, HistoryIds, maybe_id
from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.records import Json, Target

FOREIGN_SIGNATURE: Final = "skip_thought_signature_validator"
"""Replaces the signature of a call that Gemini did not make (Google's documentation of signatures)."""
NO_REASONING: Final = " "
"""Replaces the reasoning of a turn that has none: providers that require it refuse an empty one, too."""


def open_history(messages: list[Json], tag: str) -> list[Json]:
    """Open the seals of a conversation for another dialect's upstream, which writes the ids of calls.

    Mistral's thinking is left out.
    """
    opened = []
    for one in messages:
        is_plain = one.keys() <= _PLAIN and one["role"] not in _WITH_CALLS
        opened.append(one if is_plain else _drop_thinking(open_state(one, tag)))
    return opened


def write_history(messages: list[Json], target: Target, tools: object) -> list[Json]:
    """Return a conversation as a chat upstream accepts it back."""
    if target.leading_system:
        messages = _lead(messages)
    takes = "reasoning_content" in target.takes
    # To summarise a conversation, agents send it without its tools.
    wants_reasoning = takes and (bool(tools) or any(one.get("tool_calls") for one in messages))
    ids: HistoryIds | None = None  # made for the first turn that may have calls
    written = []
    for one in messages:
        if one["role"] == "developer" and target.history != "openai":
            one = {**one, "role": "system"}  # noqa: PLW2901 - few vendors know OpenAI's newer name, and it takes both
        if one.keys() <= _PLAIN and one["role"] not in _WITH_CALLS:
            if ids is not None:
                ids.answered = True
            written.append(one)
            continue
        if ids is None:
            ids = HistoryIds(target.provider_tag, tools, SHAPES[target.history])
        opened = open_state(one, target.provider_tag)
        shown = _write(opened, target, wants_reasoning=wants_reasoning)
        written.append(_write_ids(shown, ids))
    return written


def _lead(messages: list[Json]) -> list[Json]:
    """Join all instructions into the first message: some models' templates allow them nowhere else."""
    told = [one for one in messages if one["role"] in _INSTRUCTIONS]
    if len(told) < 2 and told == messages[: len(told)]:  # noqa: PLR2004 - none, or the first one alone
        return messages
    parts: list[Json] = []
    for one in told:
        content = one.get("content") or []
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        mark = {name: one[name] for name in _MARKS & one.keys()}
        parts += [*blocks[:-1], *({**last, **mark} for last in blocks[-1:])]
    rest = [one for one in messages if one["role"] not in _INSTRUCTIONS]
    if all(one.keys() == {"type", "text"} for one in parts):  # no mark of a cache
        joined = "\n\n".join(one["text"] for one in parts)
        return [{"role": "system", "content": joined}, *rest] if joined else rest
    return [{"role": "system", "content": parts}, *rest]


_INSTRUCTIONS: Final = frozenset({"developer", "system"})
_MARKS: Final = frozenset({"cache_control"})
_PLAIN: Final = frozenset({"content", "name", "role"})
"""A message with only these members goes back unchanged, unless it is an assistant's or a tool's."""
_WITH_CALLS: Final = ("assistant", "tool")


def _write(message: Json, target: Target, *, wants_reasoning: bool) -> Json:
    state = get_state(message)
    if STATE in message:
        message = {name: message[name] for name in message if name != STATE}
    if message.get("role") == "assistant":
        return _write_assistant(message, state, target, wants_reasoning=wants_reasoning)
    if message.get("role") == "tool" and message.get("content") in (None, []):
        return {**message, "content": ""}  # a tool that found nothing
    return message


def _write_assistant(message: Json, state: State, target: Target, *, wants_reasoning: bool) -> Json:
    edited: Json = {}
    if target.history != "mistral":
        message = _drop_thinking(message)
    if target.history != "any":
        message = _drop_members(message)
    states = [one for one in state.found if isinstance(one, dict)]
    if details := merge_details(one for held in states for one in get_list(held, "details")):
        edited["reasoning_details"] = details
    # Providers that require reasoning reject a tool-call turn without it, even a turn from another provider.
    if wants_reasoning and not message.get("reasoning_content"):
        edited["reasoning_content"] = read_reasoning(message) or state.reasoning or NO_REASONING
    calls = message.get("tool_calls")
    if message.get("content") == []:  # refused as an array that is empty
        edited["content"] = None if calls else ""
    if isinstance(calls, list):
        written = _write_calls(calls, states, target)
        if any(map(is_not, written, calls)):
            edited["tool_calls"] = written
    return {**message, **edited} if edited else message


def _drop_thinking(message: Json) -> Json:
    """Leave out thinking parts of a content, which only Mistral has."""
    content = message.get("content")
    if type(content) is not list or message.get("role") != "assistant":
        return message
    kept = [one for one in content if not (isinstance(one, dict) and one.get("type") == "thinking")]
    return message if len(kept) == len(content) else {**message, "content": kept or ""}


def _drop_members(message: Json) -> Json:
    """Leave out members that strict vendors refuse: other vendors' members and nulls."""
    kept = {
        name: value
        for name, value in message.items()
        if name == "content" or (value is not None and name not in _GIVEN)
    }
    calls = kept.get("tool_calls")
    if isinstance(calls, list):
        kept["tool_calls"] = [
            {name: one[name] for name in one if name != "extra_content"}
            if type(one) is dict
            else one
            for one in calls
        ]
    return message if kept == message else kept


_GIVEN: Final = frozenset({"extra_content", "reasoning", "reasoning_content", "reasoning_details"})
"""Members that some vendors add to an assistant's message and others refuse."""


def _write_calls(calls: list[object], states: list[Json], target: Target) -> list[object]:
    extras = {name: one for state in states for name, one in get_object(state, "calls").items()}
    written = []
    for number, call in enumerate(calls):
        if not isinstance(call, dict):
            written.append(call)
            continue
        edited: Json = {}
        identity = call.get("id")
        if isinstance(identity, str) and isinstance(extra := extras.get(identity), dict):
            edited["extra_content"] = extra
        if number == 0 and "thought_signature" in target.takes:
            extra = edited.get("extra_content") or get_object(call, "extra_content")
            google = get_object(extra, "google")
            if not google.get("thought_signature"):
                signed = {**google, "thought_signature": FOREIGN_SIGNATURE}
                edited["extra_content"] = {**extra, "google": signed}
        written.append({**call, **edited} if edited else call)
    return written


def _write_ids(message: Json, ids: HistoryIds) -> Json:
    """Write the ids of a message's calls or, in a result, the id of its call."""
    if message.get("role") == "tool":
        if (identity := maybe_id(message, "tool_call_id")) is None:
            return message
        written = ids.write_result(identity)
        return message if written == identity else {**message, "tool_call_id": written}
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        if message.get("role") != "assistant":
            ids.answered = True
        return message
    edited = [_write_call_id(call, ids) if isinstance(call, dict) else call for call in calls]
    return {**message, "tool_calls": edited} if any(map(is_not, edited, calls)) else message


def _write_call_id(call: Json, ids: HistoryIds) -> Json:
    if (identity := maybe_id(call, "id")) is None:
        return call
    written = ids.write_call(identity)
    edited = call if written == identity else {**call, "id": written}
    for key in ARGUMENTS:
        tool = call.get(key)
        name = tool.get("name") if isinstance(tool, dict) else None
        if isinstance(tool, dict) and isinstance(name, str) and ids.write_name(name) != name:
            edited = {**edited, key: {**tool, "name": ids.write_name(name)}}
    return edited
