"""Responses callers (OpenAI's Responses API): the validation of their requests, and errors.

Before money is held, only fields that are priced or not supported are checked. All others pass, known or
not. Fields that refer to what OpenAI stores are refused by name, unless `recall` resolves them, which
keeps responses in the memory of its process for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.base.errors import (
    BadRequest,
    CallerError,
    GatewayError,
    InternalError,
    UndeliverableReply,
    UpstreamError,
)
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.jsonbytes import get_object
from gateway.dialects.wire.kinds import FILTERED
from gateway.dialects.wire.known import (
    CACHE_MARK,
    FILE_NAMES,
    ORDINARY,
    TOOL_NAMES,
    TextFields,
    add_others,
)
from gateway.dialects.wire.names import Names
from gateway.dialects.wire.records import CompletionRequest, Json
from gateway.dialects.wire.sse import render_event
from gateway.extras.responses.stream import make_usage

ID_PREFIX: Final = "resp_"
ROLES: Final = frozenset({"assistant", "developer", "system", "user"})
LIFECYCLE_EVENTS: Final = 2
"""The events before the output: `response.created` and `response.in_progress`."""
FINAL_CODES: Final = frozenset(
    {"insufficient_quota", "context_length_exceeded", "server_is_overloaded", "slow_down"}
    | {"invalid_prompt", "usage_not_included"}
)
"""The codes after which Codex gives up. After any other one it sends the whole turn again, up to five
times; once output was delivered, each of them would be charged."""
_TEXTS: Final = frozenset({"input_text", "output_text"})
_TEXT_PARTS: Final = frozenset(
    {*_TEXTS, "text", "refusal", "summary_text", "reasoning_text", "encrypted_content"}
)
"""Parts whose bytes bound their tokens. Any other counts as a document, if it is no other file."""
_TOOLS: Final = ("apply_patch", "computer", "custom_tool", "function", "local_shell", "shell")
_RUN_TOOLS: Final = ("code_interpreter", "file_search", "mcp", "tool_search", "web_search")
_BOUNDED_ITEMS: Final = frozenset(
    {"message", "reasoning", "compaction", "ghost_snapshot", "program", "program_output"}
    | {"additional_tools", "compaction_trigger", "configuration_update", "mcp_list_tools"}
    | {"mcp_approval_request", "mcp_approval_response", "tool_search_output"}
    | {f"{name}_call" for name in (*_TOOLS, *_RUN_TOOLS)}
    | {f"{name}_call_output" for name in _TOOLS}
)
"""Items whose bytes bound their tokens, but for their parts. Any other counts as a document."""
_TWO: Final = 2
"""Members of a plain part of text."""
_ITEM: Final = Names(
    {"arguments", "call_id", "content", "encrypted_content", "id", "name", "output", "result"}
    | {"role", "status", "summary", "type"},
    {**CACHE_MARK, "tools": TOOL_NAMES},
)
_OWN: Final = {
    "custom_tool_call": ("input",),
    "input_audio": ("input_audio",),
    "input_file": ("file_data", "file_url"),
    **dict.fromkeys(("computer_screenshot", "input_image"), ("image_url",)),
}
"""Members that are looked at, or no files, in spite of their names, by the type of item or part."""
_PART: Final = Names(
    {"annotations", "file_url", "image_url", "logprobs", "text", "type", *FILE_NAMES.known},
    {**CACHE_MARK, "input_audio": FILE_NAMES},
)
_HELD: Final = ("content", "output")
"""Members of an item that may have parts."""


class ResponsesCaller(Caller):
    """A `Caller` of the Responses API."""

    __slots__ = ("_refers",)

    name = "responses"
    path = "/responses"
    conversation_field = "input"
    # Its keep-alive is no event: the SDKs take `response.created` alone for the first one.

    def __init__(self, *, refers: bool = False) -> None:
        """`refers`: requests may refer to earlier ones, and what they refer to is looked up later."""
        self._refers = refers

    def parse_request(self, data: bytes) -> CompletionRequest:
        checks = _REFERRING if self._refers else _FIELDS
        body = fields.read_body(data, checks, ("model", "input"))
        n, most = checks.count_output(body, 1, body.get("max_output_tokens") or 0)
        stream = body.get("stream") is True
        request = CompletionRequest(body, body["model"], stream, True, n, most)
        _check_input(body["input"], request, refers=self._refers)
        if not ORDINARY.issuperset(body):
            add_others(request, body, ORDINARY)
        return request

    def render_error_event(
        self,
        error: GatewayError,
        request_id: str,
        position: Json | None,
        headers: Mapping[str, str],
    ) -> bytes:
        """Write `response.failed`, which continues the stream, behind a `response.created` if need be."""
        out = b""
        if position is None:
            response: Json = _make_response(request_id)
            number = 1
            begin = {"type": "response.created", "sequence_number": 0, "response": response}
            out = render_event(begin)
        else:
            response = {**_make_response(request_id), **get_object(position, "response")}
            number = position["sequence_number"]
            if (usage := position.get("usage")) is not None:
                response["usage"] = make_usage(usage)
        code = choose_code(error, number, replays=_is_codex(headers))
        said = {"code": code, "message": error.message}
        failed = {**response, "status": "failed", "error": said}
        return out + render_event(
            {"type": "response.failed", "sequence_number": number, "response": failed}
        )


def _make_response(request_id: str) -> Json:
    """Make the least that the SDKs take for a response."""
    return {
        "id": ID_PREFIX + request_id,
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": "",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
    }


def choose_code(error: GatewayError, number: int, *, replays: bool) -> str:
    """Choose the code of a failure: the provider's own, or one that says who is at fault.

    A client that `replays` sends the whole turn again on nearly any code. So it gets a final one
    where that turn is charged: `number` events went out, or the reply was made.
    """
    match error:
        case UpstreamError():
            code = None if replays else error.provider_code
        case InternalError():
            code = None
        case CallerError():
            code = error.code or "invalid_prompt"
            # OpenAI has no code for it here, and clients send the turn again on one they do not know.
            code = "invalid_prompt" if code == FILTERED else code
        case _:
            code = error.code
    code = code or "server_error"
    is_charged = number > LIFECYCLE_EVENTS or isinstance(error, UndeliverableReply)
    return "invalid_prompt" if replays and is_charged and code not in FINAL_CODES else code


def _is_codex(headers: Mapping[str, str]) -> bool:
    """Return whether a request is Codex's, of which each program has a name such as `codex_cli_rs`."""
    names = (headers.get("originator", ""), headers.get("user-agent", ""))
    return any(name.lower().startswith("codex") for name in names)


def _check_input(held: Any, request: CompletionRequest, *, refers: bool) -> None:
    if type(held) is str:
        return
    if type(held) is not list:
        raise fields.wrong_type("input", "a string or an array of items", held)
    if not held:
        raise fields.empty("array", "input")
    for index, item in enumerate(held):
        if type(item) is not dict:
            raise fields.wrong_type(f"input[{index}]", "an object", item)
        if is_reference(item):
            _check_reference(f"input[{index}]", item, refers=refers)
        else:
            _check_item(f"input[{index}]", item, request)


def is_reference(item: Json) -> bool:
    """Return whether an item stands for an earlier one by its id."""
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and item.get("role") is None)


def _check_reference(where: str, item: Json, *, refers: bool) -> None:
    if not refers:
        raise _refuse_reference(where)
    fields.check_string(f"{where}.id", item.get("id"))


def _check_item(where: str, item: Json, request: CompletionRequest) -> None:
    kind = item.get("type")
    if not item.keys() <= _ITEM.plain:
        _ITEM.check(where, item)
        add_others(request, item, _OWN.get(kind, ()) if type(kind) is str else ())
    if kind is None or kind == "message":
        _check_message(where, item)
    elif type(kind) is not str:
        raise fields.wrong_type(f"{where}.type", "a string", kind)
    elif kind not in _BOUNDED_ITEMS:
        is_picture = kind == "image_generation_call"
        request.add_file("picture" if is_picture else "document", item.get("result"), where)
    for name in _HELD:
        parts = item.get(name)
        if type(parts) is dict:  # the screenshot of a computer's call
            parts = [parts]
        if type(parts) is list and kind != "shell_call_output":  # it has objects without a type
            _check_parts(f"{where}.{name}", parts, request)
        elif parts is not None and type(parts) not in (str, list):
            raise fields.wrong_type(f"{where}.{name}", "a string or an array of parts", parts)


def _check_message(where: str, message: Json) -> None:
    role = message.get("role")
    if type(role) is not str or role not in ROLES:
        fields.check_word(f"{where}.role", role, ROLES)
    if message.get("content") is None:
        raise fields.missing(f"{where}.content")


def _check_parts(where: str, parts: list[Any], request: CompletionRequest) -> None:
    for index, part in enumerate(parts):
        name = f"{where}[{index}]"
        kind = fields.maybe_kind(part)
        if kind is None or (kind in _TEXTS and type(part.get("text")) is not str):
            raise fields.refuse_part(name, part)
        if len(part) > _TWO or kind not in _TEXT_PARTS:
            _PART.check(name, part)
            add_others(request, part, _OWN.get(kind, ()))
        if part.get("file_id") is not None:
            raise fields.unsupported_file(f"{name}.file_id", "'file_data' or 'image_url'")
        match kind:
            case "input_image" | "computer_screenshot":
                request.add_url("picture", part.get("image_url"), name)
            case "input_file":
                data = part.get("file_data")  # a data URL, or base64 alone; else there is a link
                is_base64 = isinstance(data, str) and not data.startswith("data:")
                (request.add_file if is_base64 else request.add_url)("document", data, name)
            case _ if "audio" in kind:
                request.add_file("audio", get_object(part, kind).get("data"), name)
            case _ if kind not in _TEXT_PARTS:
                request.add_file("document", None, name)
            case _:
                pass


def _refuse_state(name: str, what: str) -> BadRequest:
    return fields.unsupported(
        name,
        f" asks for {what}, which this gateway does not offer: send the whole conversation as 'input',"
        " with 'store: false'.",
    )


def _refuse_reference(name: str) -> BadRequest:
    """Make the error for an item that is named by its id: one SDK does so unless it is told not to."""
    return fields.unsupported(
        name,
        " refers to an item of an earlier response, and this gateway keeps none: send the item itself."
        " Vercel's AI SDK does so with `providerOptions.openai.store: false`; without it, each step of"
        " a tool loop sends ids in place of earlier items.",
    )


def _refuse(what: str) -> fields.Check:
    """Make the check of a field that has to be left out."""

    def check(name: str, _value: Any) -> None:
        raise _refuse_state(name, what)

    return check


def _refuse_true(what: str) -> fields.Check:
    """Make the check of a field that has to be false."""

    def check(name: str, value: Any) -> None:
        fields.check_boolean(name, value)
        if value:
            raise _refuse_state(name, what)

    return check


_CHECKS: Final[Mapping[str, fields.Check]] = {
    "model": fields.check_string,
    "instructions": fields.check_string,
    "stream": fields.check_boolean,
    "stream_options": fields.check_object,
    "max_output_tokens": fields.check_integer(0, fields.MAX_TOKENS_BOUND),
    "temperature": fields.check_number(0, 2),
    "top_p": fields.check_number(0, 1),
    "tools": fields.check_array,
    "include": fields.check_strings,
    "text": fields.check_object,
    "reasoning": fields.check_object,
    "metadata": fields.check_object,
    "parallel_tool_calls": fields.check_boolean,
    "truncation": fields.check_string,
    "store": _refuse_true("a response that is kept"),
    "background": _refuse_true("a response to be fetched later"),
    "previous_response_id": _refuse("an earlier response"),
    "conversation": _refuse("a conversation that is kept"),
    "prompt": _refuse("a prompt that is kept"),
}
_FIELDS: Final = TextFields(_CHECKS)
_REFERRING: Final = TextFields(
    {**_CHECKS, "store": fields.check_boolean, "previous_response_id": fields.check_string}
)
