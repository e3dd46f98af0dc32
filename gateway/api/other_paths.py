"""Say what to use instead of a path that nobody has: one of the vendors', or a mistyped one.

A message names paths of our own tables only: what a caller wrote may contain anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
