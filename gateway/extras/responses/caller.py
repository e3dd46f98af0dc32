"""Responses callers (OpenAI's Responses API): the validation of their requests, and errors.

Before money is held, only fields that are priced or not supported are checked. All others pass, known or
not. Fields that refer to what OpenAI stores are refused by name, unless `recall` resolves them, which
keeps responses in the memory of its process for a while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.base.errors import (
    CallerError,
    GatewayError,
    InternalError,
    UndeliverableReply,
    UpstreamError,
)
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.jsonbytes import get_object
from gateway.dialects.wire.kinds import FILTERED, TOO_LONG, tell_as_openai
from gateway.dialects.wire.known import COUNTED, ORDINARY, add_others, count_output, make_fields
from gateway.dialects.wire.records import CompletionRequest, Json
from gateway.dialects.wire.sse import render_event
from gateway.extras.responses.checks import check_input, refuse, refuse_true
from gateway.extras.responses.stream import make_usage

ID_PREFIX: Final = "resp_"
LIFECYCLE_EVENTS: Final = 2
"""The events before the output: `response.created` and `response.in_progress`."""
FINAL_CODES: Final = frozenset(
    {"insufficient_quota", "context_length_exceeded", "server_is_overloaded", "slow_down"}
    | {"invalid_prompt", "usage_not_included"}
)
"""The codes after which Codex gives up. After any other one it sends the whole turn again, up to five
times; once output was delivered, each of them would be charged."""


class ResponsesCaller(Caller):
    """A `Caller` of the Responses API."""

    __slots__ = ("_refers",)

    name = "responses"
    path = "/responses"
    conversation_field = "input"
    # Its keep-alive is a comment: the SDKs accept only `response.created` as the first event.

    def __init__(self, *, refers: bool = False) -> None:
        """`refers`: requests may refer to stored responses and items, which `recall` looks up later."""
        self._refers = refers

    def parse_request(self, data: bytes) -> CompletionRequest:
        checks = _REFERRING if self._refers else FIELDS
        body = fields.read_body(data, checks, ("model", "input"))
        n, most = count_output(body, 1, body.get("max_output_tokens") or 0, _COUNTED)
        stream = body.get("stream") is True
        request = CompletionRequest(body, body["model"], stream, True, n, most)
        check_input(body["input"], request, refers=self._refers)
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
        """Write `response.failed` as the next event, after `response.created` if that was not sent."""
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
        message = tell_as_openai(error.message) if error.code == TOO_LONG else error.message
        said = {"code": code, "message": message}
        failed = {**response, "status": "failed", "error": said}
        return out + render_event(
            {"type": "response.failed", "sequence_number": number, "response": failed}
        )


def _make_response(request_id: str) -> Json:
    """Make the smallest object that the SDKs take for a response."""
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

    A client that `replays` sends the whole turn again on nearly any code. So it gets a final code if the
    turn is charged: output was sent (`number` events so far), or the provider made the reply.
    """
    match error:
        case UpstreamError():
            code = None if replays else error.provider_code
        case InternalError():
            code = None
        case CallerError():
            code = error.code or "invalid_prompt"
            # OpenAI has no code for filters here, and clients send the turn again on an unknown code.
            code = "invalid_prompt" if code == FILTERED else code
        case _:
            code = error.code
    code = code or "server_error"
    is_charged = number > LIFECYCLE_EVENTS or isinstance(error, UndeliverableReply)
    return "invalid_prompt" if replays and is_charged and code not in FINAL_CODES else code


def _is_codex(headers: Mapping[str, str]) -> bool:
    """Return whether a request is Codex's. Its programs have names such as `codex_cli_rs`."""
    names = (headers.get("originator", ""), headers.get("user-agent", ""))
    return any(name.lower().startswith("codex") for name in names)


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
    "store": refuse_true("a response that is kept"),
    "background": refuse_true("a response to be fetched later"),
    "previous_response_id": refuse("an earlier response"),
    "conversation": refuse("a conversation that is kept"),
    "prompt": refuse("a prompt that is kept"),
}
_COUNTED: Final = frozenset({"max_output_tokens"})
"""The fields of `COUNTED` that the dialect reads itself."""
FIELDS: Final = make_fields({**COUNTED, **_CHECKS})
_REFERRING: Final = make_fields(
    {
        **COUNTED,
        **_CHECKS,
        "store": fields.check_boolean,
        "previous_response_id": fields.check_string,
    }
)
