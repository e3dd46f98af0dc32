"""Paths that are not served: the errors for them, and what they advise."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final, NoReturn

from aiohttp import web

from gateway.api.front import Call
from gateway.base import errors
from gateway.base.addresses import find_address
from gateway.extension import find_formats, tell_next_step


def refuse_path(served: Collection[str]) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of unknown paths. `served` are the known ones."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:
        proxies = call.gateway.config.server.trusted_proxies
        address = find_address(http.remote or "", http.headers, proxies)
        call.visit = {"method": http.method, "path": clean_path(http.path), "address": address}
        raise errors.NotFound(explain_path(http.path, served))

    return refuse


def refuse_method(allow: str) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the methods that a path does not have."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise errors.MethodNotAllowed(
            f"Not allowed to {http.method} here; use {allow}.", allow=allow
        )

    return refuse


MAX_PATH_CHARS: Final = 80
"""Characters of an unknown path that are logged: callers make them up, and a line of the log should stay
readable."""
_UNCLEAN: Final = re.compile(r"[^!-~]+|sk-[^/]*")


def clean_path(path: str) -> str:
    """Return the beginning of a path for the log, without keys and control characters."""
    return _UNCLEAN.sub("…", path[: 2 * MAX_PATH_CHARS])[:MAX_PATH_CHARS]


_CHAT: Final = "use POST /v1/chat/completions"
_ONE_BY_ONE: Final = "send each request by itself, as POST /v1/chat/completions or /v1/messages"
_WITHIN: Final = "send the content within a request, as POST /v1/chat/completions or /v1/messages"

UNSERVED: Final = {
    **dict.fromkeys(("/v1/edits", "/v1/engines"), _CHAT),
    "/v1/chat/completions/...": f"completions are not stored here; {_CHAT}",
    "/v1/complete": "use POST /v1/messages",
    "/v1/messages/batches": "send each request by itself, as POST /v1/messages",
    "/v1/messages/...": "use POST /v1/messages",
    **dict.fromkeys(("/v1/assistants", "/v1/conversations", "/v1/threads"), _CHAT),
    "/v1/batches": _ONE_BY_ONE,
    **dict.fromkeys(
        ("/v1/containers", "/v1/files", "/v1/skills", "/v1/uploads", "/v1/vector_stores"), _WITHIN
    ),
    **dict.fromkeys(
        (
            *("/v1/audio/translations", "/v1/chatkit", "/v1/evals", "/v1/fine_tuning"),
            *("/v1/images/edits", "/v1/images/variations", "/v1/moderations", "/v1/organization"),
            *("/v1/organizations", "/v1/realtime", "/v1/videos"),
        ),
        "",
    ),
}
"""Paths of OpenAI and Anthropic that are not served (nor any path below them), and what to use instead; ""
if nothing could stand for them."""


def _list_paths() -> str:
    paths = ", ".join(f"POST /v1{one.path}" for one in find_formats().every_caller)
    return f"this gateway serves {paths} and GET /v1/models"


def explain_path(path: str, served: Iterable[str] = ()) -> str:
    """Return the message to a caller of an unknown path. `served` holds templates, too."""
    if path == "/":
        return f"{tell_next_step('places')}: {_list_paths()}."
    meant = "/v1/" + "/".join(part for part in path.split("/") if part not in ("", "v1"))
    for template in served:
        fixed, brace, _ = template.partition("{")
        if _fits(meant, template):
            return (
                f"Unknown URL. Use {fixed}{'...' if brace else ''}: an OpenAI SDK's base address"
                " ends in /v1, an Anthropic SDK's does not, and no path ends in a slash."
            )
    for unserved, advice in {**UNSERVED, **find_formats().unserved}.items():
        fixed = unserved.removesuffix("/...")
        if f"{meant}/".startswith(f"{fixed}/"):
            return f"{unserved} is not served here; {advice or _list_paths()}."
    return (
        f"Unknown URL: {_list_paths()}. An OpenAI SDK's base address ends in /v1, an Anthropic SDK's does"
        " not."
    )


def _fits(path: str, template: str) -> bool:
    """Return whether a path is one of a route: `{name}` is a segment, `{name:.+}` all that follows."""
    fixed, _, rest = template.partition("{")
    if ":" in rest:
        return path.startswith(fixed)
    parts, names = path.split("/"), template.split("/")
    pairs = zip(parts, names, strict=False)
    return len(parts) == len(names) and all(name == part or "{" in name for part, name in pairs)
