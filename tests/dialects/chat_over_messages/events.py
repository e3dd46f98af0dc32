"""Events of messages streams for the tests of chat callers, and the chunks they become."""

from __future__ import annotations

from typing import Any, Final

from tests.dialects.chat.kit import Played, play
from tests.dialects.chat_over_messages.kit import frame, open_stream

Json = dict[str, Any]

PING: Final = {"type": "ping"}
STOP: Final = {"type": "message_stop"}


def start(**usage: Any) -> Json:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    return {"type": "message_start", "message": {**message, "usage": usage}}


def open_block(index: int, kind: str = "text", **fields: Any) -> Json:
    block = {"type": kind, **fields}
    return {"type": "content_block_start", "index": index, "content_block": block}


def open_tool(index: int, identity: str = "t1", name: str = "f", **arguments: Any) -> Json:
    return open_block(index, "tool_use", id=identity, name=name, input=arguments)


def delta(index: int, kind: str, **fields: Any) -> Json:
    held = {"type": f"{kind}_delta", **fields}
    return {"type": "content_block_delta", "index": index, "delta": held}


def say(text: str, index: int = 0) -> Json:
    return delta(index, "text", text=text)


def argue(fragment: str, index: int) -> Json:
    return delta(index, "input_json", partial_json=fragment)


def close(index: int = 0) -> Json:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None = "end_turn", details: Json | None = None, **usage: Any) -> Json:
    held = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return {"type": "message_delta", "delta": held, "usage": usage}


def play_events(*events: Json, usage: bool = False, **body: Any) -> Played:
    return play(open_stream(usage=usage, **body), [frame(*events)])


def told(played: Played) -> list[Any]:
    """Return the deltas; for the last chunk of a choice, the finish reason."""
    return [choice["finish_reason"] or choice["delta"] for choice in played.choices]


def tool_delta(number: int, arguments: str, **head: Any) -> Json:
    """Make a tool delta; `head` is id and name of a first fragment."""
    item: Json = {"index": number}
    function = {"arguments": arguments}
    if head:
        item |= {"id": head["id"], "type": "function"}
        function = {"name": head["name"], **function}
    return {"tool_calls": [{**item, "function": function}]}


ROLE: Final = {"role": "assistant", "content": "", "refusal": None}
BEGUN: Final = (start(input_tokens=10, output_tokens=1), open_block(0, text=""))
ENDED: Final = (close(), finish(output_tokens=2), STOP)
