"""OpenAI's chat completions with GPT-5.x, which gives nothing that must come back."""

from __future__ import annotations

from typing import Final

from openai.types import chat
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from tests.agents.vendors.base import Turn, digest, refuse
from tests.agents.vendors.chat import Habit, serve
from tests.support.replies import Json

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
        raise refuse(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    if request.get("max_tokens") is not None:
        raise refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    for name in ("temperature", "top_p"):
        if (value := request.get(name)) not in (None, 1):
            raise refuse(
                f"Unsupported value: '{name}' does not support {value} with this model. Only the "
                "default (1) value is supported.",
                param=name,
                code="unsupported_value",
            )
    if request.get("tools") and request.get("reasoning_effort") not in (None, "none"):
        raise refuse(
            "Function tools with reasoning_effort are not supported for gpt-5.5 in "
            "/v1/chat/completions. Please use /v1/responses instead.",
            param="reasoning_effort",
        )
    _check_messages(request["messages"])
    del turns


def _check_messages(messages: list[Json]) -> None:
    """Refuse unknown members and long ids: camel-ai/camel#2215, autogen#6377."""
    for place, message in enumerate(messages):
        _check_members(f"messages[{place}]", message, MEMBERS[message["role"]])
        for number, call in enumerate(message.get("tool_calls") or []):
            where = f"messages[{place}].tool_calls[{number}]"
            _check_members(where, call, CALL_MEMBERS)
            if (length := len(call["id"])) > MAX_ID_CHARS:
                raise refuse(
                    f"Invalid '{where}.id': string too long. Expected a string with maximum length "
                    f"40, but got a string with length {length} instead.",
                    param=f"{where}.id",
                    code="string_above_max_length",
                )


def _check_members(where: str, value: Json, known: set[str]) -> None:
    for name in value.keys() - known:
        raise refuse(f"Unknown parameter: '{where}.{name}'.", code="unknown_parameter")


OPENAI_CHAT: Final = serve(
    Habit(
        "openai-chat",
        lambda step, number: f"call_{digest('openai-chat', step, number)}",
        check=check,
    ),
    provider='max_tokens_field = "max_completion_tokens"\nhistory = "openai"',
    model='reasoning = "none"\nleave_out = ["temperature", "top_p"]',
)
