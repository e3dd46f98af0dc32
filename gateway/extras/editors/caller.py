"""The caller of chat, which also reads what editors send in the forms of other APIs.

Cursor sends bodies of the Responses API for OpenAI's models, and blocks of Anthropic's API for models whose
name has `claude` in it. It reads chat's replies to both.
"""

from __future__ import annotations

from typing import Final

from gateway.base.errors import BadRequest
from gateway.dialects.chat.dialect import ChatCaller
from gateway.dialects.chat.tools import name_customs
from gateway.dialects.wire.customs import INPUT_KEY
from gateway.dialects.wire.fields import dump_request, too_deep
from gateway.dialects.wire.jsonbytes import get_text, maybe_loads
from gateway.dialects.wire.records import CompletionRequest, Json, Taken, Target
from gateway.extras.editors.blocks import has_blocks, write_blocks
from gateway.extras.responses.caller import ResponsesCaller
from gateway.extras.responses.over_chat_request import translate_request

_NO_MESSAGES: Final = ("missing_required_parameter", "messages")
"""The code and the field of chat's error for a body of the Responses API."""
_RESPONSES: Final = ResponsesCaller()
_TAKES: Final[frozenset[Taken]] = frozenset(
    {"prompt_cache_key", "safety_identifier", "service_tier", "user", "verbosity"}
)
_AS_CHAT: Final = Target("", takes=_TAKES, is_pivot=True)
_TOOL_TYPES: Final = ("function", "custom")


class EditorCaller(ChatCaller):
    """A `ChatCaller` that also reads `input` in place of `messages`, and Anthropic's blocks."""

    __slots__ = ()

    def read_body(self, data: bytes) -> Json:
        """See `ChatCaller`. Later errors name the messages as they are written for chat."""
        try:
            try:
                body = super().read_body(data)
            except BadRequest as error:
                body = super().read_body(_write_other(data, error))
            return write_blocks(body) if has_blocks(body) else body
        except RecursionError as error:
            raise too_deep() from error


def _write_other(data: bytes, refusal: BadRequest) -> bytes:
    """Write a body of the Responses API as chat. Raises the refusal of chat for any other body."""
    if (refusal.code, refusal.param) != _NO_MESSAGES or b'"input"' not in data:
        raise refusal
    return dump_request(_write_as_chat(_RESPONSES.parse_request(data)))


def _write_as_chat(request: CompletionRequest) -> Json:
    """Write a request of the Responses API as chat, with its functions and custom tools as they are declared."""
    body, chat = request.body, translate_request(request, _AS_CHAT)
    kept = ["stream_options"]
    if "tools" in chat:  # a request for a summary has none
        chat["tools"] = [tool for tool in body["tools"] if get_text(tool, "type") in _TOOL_TYPES]
        kept.append("tool_choice")  # among tools that are declared flat
    chat |= {name: body[name] for name in kept if body.get(name) is not None}
    customs = name_customs(chat)
    for message in chat["messages"]:
        for call in message.get("tool_calls", ()):
            if (name := call["function"]["name"]) in customs:
                text = _read_custom(call.pop("function")["arguments"])
                call |= {"type": "custom", "custom": {"name": name, "input": text}}
    return chat


def _read_custom(arguments: str) -> str:
    """Return the text of a custom tool's call, which `translate_request` has put into JSON."""
    wrapped = maybe_loads(arguments.encode())
    text = wrapped.get(INPUT_KEY) if type(wrapped) is dict else None
    return text if type(text) is str else arguments
