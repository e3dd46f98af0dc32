"""A messages request as a chat request, exactly as wire.md §5.2 has it. No I/O.

Three lists decide about a top-level field: what is carried over, what is advice and left out
(coding agents always send it), and what is refused. A field that is on none of them is refused
too, by name, so nobody loses a feature silently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.base import CompletionRequest, Target
from gateway.dialects.to_chat_fields import (
    Json,
    cannot_carry,
    check_known,
    is_default,
    read_list,
    read_object,
    read_text,
    refuse,
)
from gateway.dialects.to_chat_messages import write_messages
from gateway.dialects.to_chat_tools import write_tool_choice, write_tools
from gateway.errors import BadRequest

MAX_STOP_SEQUENCES: Final = 4
MAX_USER_CHARS: Final = 64
"""A chat upstream refuses a longer `user`; a coding agent's is about 180 characters of JSON."""

SCHEMA_NAME: Final = "response"
"""A chat upstream wants a name for the schema of a reply; the messages dialect has none."""

DROPPED_FIELDS: Final = frozenset(
    {
        "betas",
        "cache_control",
        "context_management",
        "diagnostics",
        "inference_geo",
        "service_tier",
        "thread",
    }
)
"""Advice to the upstream: accepted and left out. Of a thread only the wish for a new one is."""

REFUSED_FIELDS: Final = {
    "container": "a container",
    "mcp_servers": "a server that the vendor calls itself",
    "top_k": "this sampling field",
}
"""Null (and no servers at all) is the default and no error."""


def write_chat_request(request: CompletionRequest, target: Target) -> Json:
    """The chat request's body. Raises BadRequest for what cannot be carried over."""
    body = request.body
    for name, what in REFUSED_FIELDS.items():
        if not is_default(body.get(name)):
            raise cannot_carry(name, what)
    check_known("", body, _KNOWN)
    _check_thread(body.get("thread"))
    chat: Json = {
        "model": target.upstream_model,
        "messages": write_messages(body.get("system"), body.get("messages")),
    }
    chat |= _write_max_tokens(request.max_tokens, target)
    for name, write in _WRITERS.items():
        if (value := body.get(name)) is not None:
            chat |= write(value, body)
    if target.reasoning == "effort":
        chat |= _write_effort(body.get("thinking"), body.get("output_config"))
    if request.stream:
        chat["stream"] = True
        if target.ask_usage:
            chat["stream_options"] = {"include_usage": True}
    return chat


def _write_max_tokens(max_tokens: int | None, target: Target) -> Json:
    if max_tokens == 0:
        raise cannot_carry("max_tokens", "a request of 0 tokens, which only warms a cache,")
    return {} if max_tokens is None else {target.max_tokens_field: max_tokens}


def _write_stop(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    where = "stop_sequences"
    stops = [
        read_text(f"{where}.{index}", stop) for index, stop in enumerate(read_list(where, value))
    ]
    if len(stops) > MAX_STOP_SEQUENCES:
        raise refuse(where, f"this model's provider takes at most {MAX_STOP_SEQUENCES}.")
    return {"stop": stops} if stops else {}


def _write_tools(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    tools = write_tools(value)
    return {"tools": tools} if tools else {}


def _write_tool_choice(value: Any, body: Json) -> Json:
    return write_tool_choice(value, with_tools=bool(body.get("tools")))


def _write_metadata(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    user = read_object("metadata", value).get("user_id")
    fits = isinstance(user, str) and 0 < len(user) <= MAX_USER_CHARS
    return {"user": user} if fits else {}


def _write_output_config(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    """The schema of the reply; the effort is `_write_effort`'s."""
    where = "output_config"
    check_known(where, read_object(where, value), {"effort", "format"})
    if (form := value.get("format")) is None:
        return {}
    where = f"{where}.format"
    check_known(where, read_object(where, form), {"type", "schema"})
    if form.get("type") != "json_schema":
        raise refuse(f"{where}.type", "must be 'json_schema'.")
    schema = read_object(f"{where}.schema", form.get("schema"))
    named = {"name": SCHEMA_NAME, "schema": schema, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _check_thinking(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    """What it asks for is `_write_effort`'s to say; how it is displayed is advice."""
    check_known("thinking", read_object("thinking", value), {"type", "budget_tokens", "display"})
    return {}


def _check_speed(value: Any, body: Json) -> Json:  # noqa: ARG001 - one signature for the table
    if value != "standard":
        raise cannot_carry("speed", "a speed other than 'standard'")
    return {}


def _pass(name: str) -> Callable[[Any, Json], Json]:
    return lambda value, _body: {name: value}


_WRITERS: Final[dict[str, Callable[[Any, Json], Json]]] = {
    "temperature": _pass("temperature"),
    "top_p": _pass("top_p"),
    "stop_sequences": _write_stop,
    "tools": _write_tools,
    "tool_choice": _write_tool_choice,
    "metadata": _write_metadata,
    "output_config": _write_output_config,
    "thinking": _check_thinking,
    "speed": _check_speed,
}

CARRIED_FIELDS: Final = frozenset(
    {*_WRITERS, "max_tokens", "messages", "model", "stream", "system"}
)
_KNOWN: Final = CARRIED_FIELDS | DROPPED_FIELDS | set(REFUSED_FIELDS)


def _check_thread(thread: Any) -> None:
    """A conversation that an earlier reply was to hold: SDKs send it whole when it is not found."""
    if isinstance(thread, dict) and thread.get("type") != "create":
        raise BadRequest(
            "thread: this model's provider holds no conversations; send all messages.",
            param="thread",
            detail_code="thread_not_found",
        )


_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
_BUDGET_STEPS: Final = ((4096, "high"), (2048, "medium"), (1024, "low"))
_LEAST_EFFORT: Final = "minimal"
_ADAPTIVE_EFFORT: Final = "medium"
"""Of a model left to think as it sees fit, where the caller named no effort."""


def _write_effort(thinking: Any, config: Any) -> Json:
    """`reasoning_effort`: by the budget where there is one, else the effort that was named."""
    effort = (config or {}).get("effort")
    if effort is not None and (not isinstance(effort, str) or effort not in _EFFORTS):
        raise refuse("output_config.effort", f"must be one of {', '.join(sorted(_EFFORTS))}.")
    match (thinking or {}).get("type"):
        case None if thinking is None:
            return {} if effort is None else {"reasoning_effort": effort}
        case "enabled":
            return {"reasoning_effort": _map_budget(thinking.get("budget_tokens"))}
        case "adaptive" | "between_tools":
            return {"reasoning_effort": effort or _ADAPTIVE_EFFORT}
        case "disabled":
            return {"reasoning_effort": "none"}
        case _:
            raise refuse(
                "thinking.type", "must be 'enabled', 'adaptive', 'between_tools' or 'disabled'."
            )


def _map_budget(budget: Any) -> str:
    if not isinstance(budget, int) or isinstance(budget, bool):
        raise refuse("thinking.budget_tokens", "must be an integer.")
    return next((effort for least, effort in _BUDGET_STEPS if budget >= least), _LEAST_EFFORT)
