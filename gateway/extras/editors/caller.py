"""Requests of the Responses API at the path of chat.

Cursor sends them there for OpenAI's models, and reads chat's replies.
"""

from __future__ import annotations

from typing import Final

from gateway.base.errors import BadRequest
from gateway.dialects.chat.dialect import ChatCaller
from gateway.dialects.chat.tools import name_customs
from gateway.dialects.wire.customs import read_input
from gateway.dialects.wire.fields import dump_request
from gateway.dialects.wire.jsonbytes import get_list, get_text
from gateway.dialects.wire.records import CompletionRequest, Json, Taken, Target
from gateway.extras.responses.caller import ResponsesCaller
from gateway.extras.responses.over_chat_request import translate_request

_TAKES: Final[frozenset[Taken]] = frozenset(
    {"prompt_cache_key", "safety_identifier", "service_tier", "user", "verbosity"}
)
_AS_CHAT: Final = Target("", takes=_TAKES, max_tokens_field="max_completion_tokens", is_pivot=True)
_SAME: Final = ("stream_options", "tool_choice")
"""Members that go on as they came: chat's own, and the choice among tools that are declared flat."""


class EditorCaller(ChatCaller):
    """A `ChatCaller` that also reads requests with `input` in place of `messages`."""

    __slots__ = ()

    def parse_request(self, data: bytes) -> CompletionRequest:
        try:
            return super().parse_request(data)
        except BadRequest as error:
            if (error.code, error.param) != _LACKS or b'"input"' not in data:
                raise
        request = _RESPONSES.parse_request(data)
        return super().parse_request(dump_request(_write(request)))


_LACKS: Final = ("missing_required_parameter", "messages")
_RESPONSES: Final = ResponsesCaller()


def _write(request: CompletionRequest) -> Json:
    """Write a request as chat, with its functions and custom tools as they are declared."""
    given, made = request.body, translate_request(request, _AS_CHAT)
    tools = [one for one in get_list(given, "tools") if get_text(one, "type") in _KINDS]
    made |= {"tools": tools} if tools else {}
    made |= {name: given[name] for name in _SAME if given.get(name) is not None}
    customs = name_customs(made)
    for message in made["messages"]:
        for call in message.get("tool_calls", ()):
            if (name := call["function"]["name"]) in customs:
                said = read_input(call.pop("function")["arguments"])
                call |= {"type": "custom", "custom": {"name": name, "input": said}}
    return made


_KINDS: Final = ("function", "custom")
