"""The last bytes that a caller got, against the row of the table of endings."""

from __future__ import annotations

from typing import Final

from tests.api.endings import PIECES, TEXT, Ending
from tests.support.chat import check_error, check_messages_error
from tests.support.chat import read_broken_stream as read_broken_chat
from tests.support.chat import read_stream as read_chat
from tests.support.client import Reply
from tests.support.messages import read_broken_stream as read_broken_messages
from tests.support.messages import read_stream as read_messages
from tests.support.responses import read_stream as read_responses

OVERLOADED: Final = ("server_is_overloaded", "overloaded_error")
CODES: Final[dict[str, tuple[str, str]]] = {
    "upstream_error": ("upstream_error", "api_error"),
    "upstream_timeout": ("upstream_timeout", "api_error"),
    "rejected": ("invalid_request_error", "invalid_request_error"),
}
"""The code of an error in chat and its type in messages, by outcome; others are an overload."""
LAST_EVENTS: Final = (b"[DONE]", b"message_stop", b"response.completed")


def check_last(reply: Reply, ending: Ending, caller: str, model: str, *, stream: bool) -> None:
    """Check the end of what the caller got, and what came before it."""
    match ending.last:
        case "nothing" | "cut":
            assert not reply.complete
            assert not any(last in reply.body for last in LAST_EVENTS)
        case "reply":
            assert (reply.status, reply.complete) == (200, True)
            _check_whole(reply, caller, model, stream=stream)
        case "error":
            assert (reply.status, reply.complete) == (ending.status, True)
            _check_error(reply, ending, caller, model)


def _check_whole(reply: Reply, caller: str, model: str, *, stream: bool) -> None:
    if not stream:
        assert TEXT in reply.body.decode()
    elif caller == "chat":
        assert read_chat(reply.body, model).text == TEXT
    elif caller == "messages":
        read_messages(reply.body, model)
        assert all(piece in reply.body.decode() for piece in PIECES)
    else:
        assert read_responses(reply.body, model, "response.completed") == TEXT


def _check_error(reply: Reply, ending: Ending, caller: str, model: str) -> None:
    """Check a status with a body, or one error event behind whole events."""
    code, kind = CODES.get(ending.outcome, OVERLOADED)
    if reply.status != 200:
        if caller == "messages":
            check_messages_error(reply, reply.status, kind)
        else:
            check_error(reply, reply.status, code)
    elif caller == "chat":
        said = read_broken_chat(reply.body, model, code)
        assert said.text == (TEXT if ending.charge.completion else "")
    elif caller == "messages":
        read_broken_messages(reply.body, model, kind, reply.headers["x-request-id"])
    else:
        text = read_responses(reply.body, model, "response.failed")
        assert text == (TEXT if ending.charge.completion else "")
