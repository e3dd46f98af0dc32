"""Paths that nobody has: the vendors' others, and mistyped ones."""

from __future__ import annotations

from gateway.api.front import UNSERVED, explain_path
from gateway.api.routes import make_routes
from gateway.dialects.exchanges import CALLERS
from tests.support.chat import check_error
from tests.support.rows import each_row
from tests.support.stage import Stage

SERVED = [route.path for route in make_routes(CALLERS)]
CHAT = "/v1/chat/completions"


@each_row(
    ("path", "meant"),
    [
        (f"{CHAT}/", CHAT),
        ("/chat/completions", CHAT),
        (f"/v1{CHAT}", CHAT),
        (f"/{CHAT}", CHAT),
        ("/v1/v1/messages", "/v1/messages"),
        ("/messages/count_tokens", "/v1/messages/count_tokens"),
        ("/responses", "/v1/responses"),
        ("/models", "/v1/models"),
        ("/models/gpt-4o", "/v1/models/..."),
        ("/key", "/v1/key"),
    ],
)
def test_a_nearly_right_path_is_told_the_right_one(path: str, meant: str) -> None:
    assert f" Use {meant}: an OpenAI SDK's base address" in explain_path(path, SERVED)


@each_row(
    ("path", "told"),
    [
        ("/v1/completions", "/v1/completions is not served here; use POST /v1/chat/completions."),
        ("/completions", "/v1/completions is not served here; use POST /v1/chat/completions."),
        ("/v1/images/generations", "/v1/images is not served here; this gateway serves POST"),
        ("/v1/responses/resp_1/input_items", "/v1/responses/... is not served here; nothing is"),
        ("/v1/chat/completions/chatcmpl-1", f"{CHAT}/... is not served here; completions are not"),
        ("/v1/messages/batches/b/results", "/v1/messages/batches is not served here; send each"),
        ("/v1/complete", "/v1/complete is not served here; use POST /v1/messages."),
        ("/v1/files", "/v1/files is not served here; send the content within a request"),
        ("/v1/completionsx", "Unknown URL: this gateway serves POST /v1/chat/completions"),
        ("/", "Unknown URL: this gateway serves POST /v1/chat/completions"),
    ],
)
def test_other_paths_of_the_vendors_are_told_what_to_use(path: str, told: str) -> None:
    assert explain_path(path, SERVED).startswith(told)


def test_no_path_is_both_served_and_not() -> None:
    assert not set(UNSERVED) & set(SERVED)


def test_nothing_of_an_unknown_path_is_repeated() -> None:
    assert "secret" not in explain_path("/v1/files/secret", SERVED)
    assert "secret" not in explain_path("/models/secret", SERVED)


@each_row("path", [one.replace("...", "x") for one in UNSERVED])
async def test_each_is_a_404_in_its_callers_words(stage: Stage, path: str) -> None:
    for method in ("GET", "POST"):
        reply = await stage.gateway.ask(method, path, key=stage.key)
        if path.startswith("/v1/messages/"):
            assert (reply.status, reply.json["error"]["type"]) == (404, "not_found_error")
        else:
            assert "is not served here" in check_error(reply, 404, "unknown_url")
