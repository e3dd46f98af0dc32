"""Errors as responses, in the dialect of the caller, and words for paths that nobody has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NoReturn

from aiohttp import web

from gateway.api.call import Call
from gateway.api.observations import find_code
from gateway.errors import BodyTooLarge, GatewayError, MethodNotAllowed, NotFound


def render_error(call: Call, error: GatewayError) -> web.Response:
    """Render an error reply; the call notes its code for the log line."""
    call.error_code = find_code(error)
    response = web.Response(
        body=call.dialect.render_error(error, call.request_id),
        status=error.status,
        content_type="application/json",
    )
    if error.retry_after_seconds is not None:
        milliseconds = max(1, round(error.retry_after_seconds * 1000))
        response.headers["Retry-After"] = str(-(-milliseconds // 1000))
        response.headers["retry-after-ms"] = str(milliseconds)
    if not error.should_retry:
        response.headers["x-should-retry"] = "false"
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = error.allow
    if isinstance(error, BodyTooLarge):
        response.force_close()  # the rest of the body is not worth reading
    return response


def refuse_path(served: Collection[str]) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the paths that nobody has. `served` are the others."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise NotFound(explain_path(http.path, served))

    return refuse


def refuse_method(allow: str) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the methods that a path does not have."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise MethodNotAllowed(f"Not allowed to {http.method} here; use {allow}.", allow=allow)

    return refuse


_CHAT: Final = "use POST /v1/chat/completions"
_ONE_BY_ONE: Final = "send each request by itself, as POST /v1/chat/completions or /v1/messages"
_WITHIN: Final = "send the content within a request, as POST /v1/chat/completions or /v1/messages"
_WHOLE: Final = "nothing is stored here, so send the whole conversation as POST /v1/responses"
_TEXT: Final = (
    "this gateway serves POST /v1/chat/completions, POST /v1/responses, POST /v1/messages,"
    " POST /v1/embeddings and GET /v1/models"
)

UNSERVED: Final = {
    "/v1/completions": _CHAT,
    "/v1/edits": _CHAT,
    "/v1/engines": _CHAT,
    "/v1/chat/completions/...": f"completions are not stored here; {_CHAT}",
    "/v1/complete": "use POST /v1/messages",
    "/v1/messages/batches": "send each request by itself, as POST /v1/messages",
    "/v1/messages/...": "use POST /v1/messages",
    "/v1/responses/...": _WHOLE,
    "/v1/assistants": _WHOLE,
    "/v1/conversations": _WHOLE,
    "/v1/threads": _WHOLE,
    "/v1/batches": _ONE_BY_ONE,
    "/v1/containers": _WITHIN,
    "/v1/files": _WITHIN,
    "/v1/skills": _WITHIN,
    "/v1/uploads": _WITHIN,
    "/v1/vector_stores": _WITHIN,
    "/v1/embeddings/...": "use POST /v1/embeddings",
    **dict.fromkeys(
        (
            "/v1/audio",
            "/v1/chatkit",
            "/v1/evals",
            "/v1/fine_tuning",
            "/v1/images",
            "/v1/moderations",
            "/v1/organization",
            "/v1/organizations",
            "/v1/realtime",
            "/v1/rerank",
            "/v1/videos",
        ),
        _TEXT,
    ),
}
"""The paths of OpenAI and Anthropic that are not served, nor is any below them: use these instead."""


def explain_path(path: str, served: Iterable[str] = ()) -> str:
    """Return the message to a caller of a path that nobody has. `served` has templates, too."""
    meant = "/v1/" + "/".join(part for part in path.split("/") if part not in ("", "v1"))
    for one in served:
        fixed, brace, _ = one.partition("{")
        if meant == one or (brace and meant.startswith(fixed)):
            return (
                f"Unknown URL. Use {fixed}{'...' if brace else ''}: an OpenAI SDK's base address"
                " ends in /v1, an Anthropic SDK's does not, and no path ends in a slash."
            )
    for unserved, advice in UNSERVED.items():
        fixed = unserved.removesuffix("/...")
        if f"{meant}/".startswith(f"{fixed}/"):
            return f"{unserved} is not served here; {advice}."
    return f"Unknown URL: {_TEXT}. An OpenAI SDK's base address ends in /v1, an Anthropic SDK's does not."
