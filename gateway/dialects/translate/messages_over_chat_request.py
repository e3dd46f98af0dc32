"""A messages request as a chat request: its fields and its tools.

Every field of the messages schema is in one of the tables below; a field that is in none is
refused by name, so that nobody loses a feature silently.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from gateway.base.errors import BadRequest
from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat import writer
from gateway.dialects.messages.caller import UNSET, MarkedField, MessagesField, is_default
from gateway.dialects.translate.messages_over_chat_conversation import translate_conversation
from gateway.dialects.translate.pivot import open_root
from gateway.dialects.wire.call_ids import shorten_name
from gateway.dialects.wire.records import CompletionRequest, Json, Taken, Target

MAX_STOP_SEQUENCES: Final = 4
"""OpenAI's own limit of stop sequences; other chat upstreams have the same or none."""
MAX_USER_CHARS: Final = 64
"""Characters of `user`: OpenAI's own limit. A coding agent's has about 180, as JSON."""

SCHEMA_NAME: Final = "response"
"""The name of a reply's schema: a chat upstream requires one, and messages has none."""

DROPPED: Final = frozenset(
    {
        *("betas", "cache_control", "context_management", "diagnostics", "inference_geo"),
        *("service_tier", "speed", "thread", "top_k"),
    }
)
"""Advice to the upstream, accepted and left out unless the upstream takes it. `thread` may only request a
new thread."""

REFUSED: Final = {
    "container": "a container",
    "mcp_servers": "a server that the vendor calls itself",
}
"""Fields without a counterpart, with their description. Null and empty values have no effect."""

NAMES: Final = {
    "max_completion_tokens": ("max_tokens",),
    "reasoning_effort": ("thinking", "output_config.effort"),
    "response_format": ("output_config.format",),
    "stop": ("stop_sequences",),
    "tools": ("tools",),
    "user": ("metadata.user_id",),
    "web_search_options": ("tools",),
}
"""This dialect's names of chat's fields, if they differ, for refusals of chat's fields."""

EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})
BUDGET_STEPS: Final = ((4096, "high"), (2048, "medium"), (1024, "low"))
"""The least budget in tokens for each effort; Anthropic's smallest budget is 1,024."""
LEAST_EFFORT: Final = "minimal"
ADAPTIVE_EFFORT: Final = "medium"
"""The effort for adaptive thinking, if the caller named none."""


def translate_request(request: CompletionRequest, target: Target) -> Json:
    """Write the chat request. Raises BadRequest, naming the field that cannot be carried over."""
    marked = "cache_control" in target.takes
    given = _rename_format(request.body)
    body = (MarkedField if marked else MessagesField)(given)
    for name, what in REFUSED.items():
        if not is_default(given.get(name)):
            raise body[name].refuse_field(what)
    body.check_known(_KNOWN)
    _check_thread(body["thread"])
    messages = translate_conversation(body["system"], body["messages"], links=target.is_pivot)
    chat: Json = {"model": request.model, "messages": messages}
    if given.get("max_tokens") == 0:
        raise body["max_tokens"].refuse_field("a request of 0 tokens, which only warms a cache,")
    if request.max_tokens is not None:
        chat[target.max_tokens_field] = request.max_tokens
    passed = PASSED | (target.takes & TAKEN)
    chat |= {name: given[name] for name in passed if given.get(name) not in (None, UNSET)}
    for name, translate in _TRANSLATORS.items():
        if given.get(name) is not None:
            chat |= translate(body[name])
    chat |= translate_tools(body, target)
    if "prompt_cache_key" in target.takes:  # all turns of a session should use the same cache
        chat |= _make_cache_key(body["metadata"])
    if target.reasoning == "effort":
        chat |= _translate_reasoning(body["thinking"], body["output_config"])
    if request.stream:  # `false` is left out, as it is the default everywhere
        chat["stream"] = True
    return chat


def _rename_format(given: Json) -> Json:
    """Return a request in which `output_format`, the former name, is moved to `output_config.format`."""
    if is_default(given.get("output_format")):
        return given
    config = {"format": given["output_format"], **(given.get("output_config") or {})}
    return {**given, "output_config": config}


def _translate_stop(sequences: MessagesField) -> Json:
    stops = [stop.read_string() for stop in sequences.read_items()]
    if len(stops) > MAX_STOP_SEQUENCES:
        raise sequences.refuse(f"this model's provider takes at most {MAX_STOP_SEQUENCES}.")
    return {"stop": stops} if stops else {}


def _translate_metadata(metadata: MessagesField) -> Json:
    user = metadata.get("user_id")
    fits = isinstance(user, str) and 0 < len(user) <= MAX_USER_CHARS
    return {"user": user} if fits else {}


def _make_cache_key(metadata: MessagesField) -> Json:
    """Make the key of the prompt cache out of the user's id, in which agents name their session."""
    user = None if metadata.value is None else metadata.get("user_id")
    if not isinstance(user, str) or not user:
        return {}
    if len(user) > MAX_USER_CHARS:
        user = sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
    return {"prompt_cache_key": user}


def _translate_output_config(config: MessagesField) -> Json:
    """Write the schema of the reply; `_translate_reasoning` reads the effort."""
    config.check_known({"effort", "format"})
    form = config["format"]
    if form.value is None:
        return {}
    form.check_known({"type", "schema"})
    if form.get("type") != "json_schema":
        raise form["type"].refuse("must be 'json_schema'.")
    schema = form["schema"].read_object()
    named = {"name": SCHEMA_NAME, "schema": schema, "strict": False}  # as chat takes any schema
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _check_thinking(thinking: MessagesField) -> Json:
    """Only check the fields: `_translate_reasoning` reads them. `display` is advice and left out."""
    thinking.check_known({"type", "budget_tokens", "display"})
    return {}


_TRANSLATORS: Final[dict[str, Callable[[MessagesField], Json]]] = {
    "stop_sequences": _translate_stop,
    "metadata": _translate_metadata,
    "output_config": _translate_output_config,
    "thinking": _check_thinking,
}

PASSED: Final = frozenset({"temperature", "top_p"})
TAKEN: Final[frozenset[Taken]] = frozenset({"cache_control", "top_k"})
"""Fields of this dialect's own that some chat upstreams take."""
CARRIED: Final = frozenset(
    {*_TRANSLATORS, "max_tokens", "messages", "model", "stream", "system", "tool_choice", "tools"}
)
_KNOWN: Final = CARRIED | DROPPED | PASSED | {*REFUSED, "output_format"}


def _check_thread(thread: MessagesField) -> None:
    """Refuse to continue an earlier reply's thread. SDKs then send the whole conversation."""
    if isinstance(thread.value, dict) and thread.get("type") != "create":
        raise BadRequest(
            "thread: this model's provider holds no conversations; send all messages.",
            param="thread",
            detail_code="thread_not_found",
        )


def _translate_reasoning(thinking: MessagesField, config: MessagesField) -> Json:
    """Write `reasoning_effort`: derived from the budget if there is one, else the named effort."""
    effort = None if config.value is None else config.get("effort")
    if effort is not None and (not isinstance(effort, str) or effort not in EFFORTS):
        raise config["effort"].refuse(f"must be one of {', '.join(sorted(EFFORTS))}.")
    if thinking.value is None:
        return {} if effort is None else {"reasoning_effort": effort}
    match thinking.get("type"):
        case "enabled":
            budget = thinking["budget_tokens"]
            tokens = budget.value
            if not isinstance(tokens, int) or isinstance(tokens, bool):
                raise budget.wrong_type("an integer")
            fitting = (effort for least, effort in BUDGET_STEPS if tokens >= least)
            return {"reasoning_effort": next(fitting, LEAST_EFFORT)}
        case "adaptive" | "between_tools":
            return {"reasoning_effort": effort or ADAPTIVE_EFFORT}
        case "disabled":
            return {}  # few models know an effort of `none`
        case _:
            raise thinking["type"].refuse(
                "must be 'enabled', 'adaptive', 'between_tools' or 'disabled'."
            )


_TOOL_ADVICE: Final = frozenset(
    {"cache_control", "defer_loading", "eager_input_streaming", "input_examples"}
)
"""Advice to the upstream. A tool whose loading may be deferred is sent at once."""
_CHOICE_FIELDS: Final = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_KNOWN_OF_TOOL: Final = _TOOL_ADVICE | {
    *("allowed_callers", "description", "input_schema", "name", "strict", "type")
}
_KNOWN_OF_SEARCH: Final = _TOOL_ADVICE | {
    *("allowed_callers", "allowed_domains", "blocked_domains", "max_uses", "name"),
    *("response_inclusion", "strict", "type", "user_location"),
}


def translate_tools(body: MessagesField, target: Target) -> Json:
    """Write function tools, a search that has a price, and which of them may be called.

    Raises BadRequest for other tools that the vendor's own servers run.
    """
    given = [] if body.get("tools") is None else body["tools"].read_items()
    searches = [tool for tool in given if writer.is_search(tool, target)]
    tools = [_translate_tool(tool) for tool in given if tool not in searches]
    made: Json = {"tools": tools} if tools else {}
    choice = body["tool_choice"]
    if choice.value is not None:
        made |= _translate_choice(choice, tools, searches)
    options = None
    if searches:
        searches[0].check_known(_KNOWN_OF_SEARCH)
        _check_callers(searches[0]["allowed_callers"])
        options = writer.make_search(searches[0], searches[0], target)
    return writer.add_search(made, options, target)


def _translate_choice(choice: MessagesField, tools: list[Json], searches: list[Any]) -> Json:
    """Write `tool_choice` and `parallel_tool_calls`, which a chat upstream refuses without tools."""
    choice.check_known(_CHOICE_FIELDS)
    kind = choice.get("type")
    fields: Json
    if kind == "tool" and searches and choice.get("name") == WEB_SEARCH:
        fields = {"tool_choice": writer.SEARCH_CHOICE}
    elif kind == "tool":
        name = shorten_name(choice["name"].read_string())
        fields = {"tool_choice": {"type": "function", "function": {"name": name}}}
    elif isinstance(kind, str) and kind in _CHOICES:
        fields = {"tool_choice": _CHOICES[kind]}
    else:
        raise choice["type"].refuse("must be 'auto', 'any', 'tool' or 'none'.")
    if not tools and not searches:
        if kind in {"any", "tool"}:
            raise choice.refuse(f"'{kind}' needs tools.")
        return {}
    if tools and kind != "none" and choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False
    return fields


def _translate_tool(tool: MessagesField) -> Json:
    kind = tool.get("type")
    if kind not in (None, "custom"):
        raise tool["type"].refuse_type("a tool", kind)
    tool.check_known(_KNOWN_OF_TOOL)
    _check_callers(tool["allowed_callers"])
    function: Json = {"name": shorten_name(tool["name"].read_string())}
    if (description := tool["description"]).value is not None:
        function["description"] = description.read_string()
    function["parameters"] = open_root(tool["input_schema"].read_object())
    if (strict := tool.get("strict")) is not None:
        function["strict"] = strict is True
    return {"type": "function", "function": function, **tool.mark}


def _check_callers(callers: MessagesField) -> None:
    if callers.value is not None and "direct" not in [one.value for one in callers.read_items()]:
        raise callers.refuse_field("a tool that only other tools may call")
