"""Measure how many JSON values are translated in a millisecond: `python -m tests.bench.rates`, a minute.

Bodies of many tiny values of one kind are written for each upstream, and replies read for each
caller. The output is the rate of the slowest kind, in CPU time: what `gateway.dialects.exchanges.RATES`
holds, rounded down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from gateway.dialects.chat.state import tag_provider
from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import CompletionRequest, ReplyContext, Target
from gateway.dialects.wire.jsonbytes import count_elements
from gateway.dialects.wire.replies import MAX_REPLY_BYTES
from gateway.usage import Expected, UsageLimits

COUNT: Final = 1500
"""The number of values of each kind in a body."""
ROUNDS: Final = 5
_TAG: Final = tag_provider("p", "u")
_CONTEXT: Final = ReplyContext(
    CompletionRequest({}, "ours"),
    "request-1",
    Expected(10, UsageLimits(10**6, 10**6, 10**6)),
    provider_tag=_TAG,
)
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}}
_ROLES: Final = ("user", "assistant")


def make_chat_call(number: int) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    return {"id": f"c{number}", "type": "function", "function": function}


def list_requests() -> dict[str, list[dict[str, Any]]]:
    """List bodies of many messages, parts, calls with results, and tools, by the caller's dialect."""
    numbers, pairs = range(COUNT), range(COUNT // 2)
    messages = [{"role": _ROLES[number % 2], "content": "a"} for number in numbers]
    chat_calls = [
        message
        for number in pairs
        for message in (
            {"role": "assistant", "tool_calls": [make_chat_call(number)]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": "x"},
        )
    ]
    uses = [
        message
        for number in pairs
        for message in (
            {"role": "assistant", "content": [_use(number)]},
            {"role": "user", "content": [_result(number)]},
        )
    ]
    items = [
        item
        for number in pairs
        for item in (
            {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": "x"},
        )
    ]
    part, names = {"type": "text", "text": "a"}, [f"f{number}" for number in range(COUNT // 4)]
    tools = [{"type": "function", "function": {"name": n, "parameters": _SCHEMA}} for n in names]
    said = {"role": "user", "content": "a"}
    return {
        "chat": [
            {"messages": messages},
            {"messages": [{"role": "user", "content": [part] * COUNT}]},
            {"messages": chat_calls},
            {"messages": [said], "tools": tools},
        ],
        "messages": [
            {"max_tokens": 9, "messages": messages},
            {"max_tokens": 9, "messages": [{"role": "user", "content": [part] * COUNT}]},
            {"max_tokens": 9, "messages": uses},
            {
                "max_tokens": 9,
                "messages": [said],
                "tools": [{"name": name, "input_schema": _SCHEMA} for name in names],
            },
        ],
        "responses": [
            {"input": [said] * COUNT},
            {"input": [{**said, "content": [{"type": "input_text", "text": "a"}]}] * COUNT},
            {"input": items},
            {
                "input": "a",
                "tools": [{"type": "function", "name": n, "parameters": _SCHEMA} for n in names],
            },
        ],
    }


def _use(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}}


def _result(number: int) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "x"}


def list_replies() -> dict[str, list[dict[str, Any]]]:
    """List replies of many calls, choices or texts, by the upstream's dialect."""
    numbers = range(COUNT)
    chat = {"object": "chat.completion", "model": "m"}
    calls = {"role": "assistant", "content": None, "tool_calls": [*map(make_chat_call, numbers)]}
    said = {"role": "assistant", "content": "a"}
    message = {"type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
    response = {"object": "response", "status": "completed", "model": "m", "id": "resp_1"}
    call = {"type": "function_call", "name": "f", "arguments": "{}", "status": "completed"}
    text = {"type": "output_text", "text": "a", "annotations": []}
    item = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "chat": [
            {**chat, "choices": [{"index": 0, "finish_reason": "tool_calls", "message": calls}]},
            {
                **chat,
                "choices": [
                    {"index": n, "finish_reason": "stop", "message": said} for n in numbers
                ],
            },
        ],
        "messages": [
            {**message, "content": [{"type": "text", "text": "a"}] * COUNT},
            {**message, "content": [_use(number) for number in numbers]},
        ],
        "responses": [
            {**response, "output": [{**call, "id": f"f{n}", "call_id": f"c{n}"} for n in numbers]},
            {**response, "output": [{**item, "id": f"m{number}"} for number in numbers]},
        ],
    }


def measure(data: bytes, work: Callable[[], object]) -> float:
    """Return the values of `data` that are worked on in a millisecond."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return count_elements(data, MAX_REPLY_BYTES) / best / 1000


def _dump(body: dict[str, Any]) -> bytes:
    return json.dumps({"model": "m", **body}, separators=(",", ":")).encode()


def main() -> None:
    requests, replies, target = list_requests(), list_replies(), Target("up", provider_tag=_TAG)
    print(f"{'caller over upstream':24}{'requests':>10}{'replies':>10}   values per ms")
    for caller, dialect in CALLERS.items():
        bodies = [*map(_dump, requests[caller])]
        parsed = min(measure(data, lambda: dialect.parse_request(data)) for data in bodies)  # noqa: B023
        print(f"{caller + ', parsed':24}{parsed:10.0f}")
        for upstream, exchange in EXCHANGES[caller].items():
            if upstream not in replies:
                continue
            written = min(
                measure(data, lambda: exchange.write_request(request, target))  # noqa: B023
                for data in bodies
                for request in (dialect.parse_request(data),)
            )
            read = min(
                measure(data, lambda: exchange.read_reply(data, _CONTEXT))  # noqa: B023
                for data in map(_dump, replies[upstream])
            )
            print(f"{f'{caller} over {upstream}':24}{written:10.0f}{read:10.0f}")


if __name__ == "__main__":
    main()
