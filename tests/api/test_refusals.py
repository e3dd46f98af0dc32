"""Refusals on every surface: status, words in the caller's dialect, one line in the log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.api.front import UNSERVED
from gateway.dialects.wire.jsonbytes import MAX_ELEMENTS
from gateway.ids import make_key
from tests.support import messages, responses
from tests.support.chat import check_error, check_messages_error, say
from tests.support.client import Reply
from tests.support.embeddings import EMBEDDINGS, embed
from tests.support.process import CHAT, COUNT_TOKENS, MESSAGES, RESPONSES
from tests.support.rows import each_row, told_together
from tests.support.stage import Stage

Json = dict[str, Any]
JSON: Final = {"Content-Type": "application/json"}
ANTHROPIC: Final = {"anthropic-version": "2023-06-01"}
PROMPT: Final = "Say hello to xyzzy."
BODY: Final = say("plain/0", PROMPT)
GOOD: Final = json.dumps(BODY).encode()
MESSAGE: Final = messages.ask("messages/0", PROMPT)
NOT_SERVED: Final = "is not served here"


@dataclass(frozen=True, slots=True)
class Refused:
    """A request, by default a good one for a chat completion, and how it is refused."""

    status: int
    word: str | None
    """The code of the error; its type in the messages dialect."""
    path: str = CHAT
    body: object = GOOD
    told: str = ""
    """A part of the message."""
    account: str | None = "rich"
    headers: Mapping[str, str] | None = None
    """In the place of the content type."""
    method: str = "POST"
    param: str | None = None

    @property
    def is_messages(self) -> bool:
        return self.path.startswith(MESSAGES) or ANTHROPIC.items() <= (self.headers or {}).items()

    async def send(self, stage: Stage) -> Reply:
        key = None if self.account is None else stage.callers[self.account].key
        headers = JSON if self.headers is None else self.headers
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        return await stage.gateway.ask(self.method, self.path, key=key, headers=headers, body=body)


def bad(body: object, param: str | None = None, word: str | None = None, **more: Any) -> Refused:
    return Refused(400, word, body=body, param=param, **more)


def with_fields(fields: str) -> bytes:
    """Make a good body with raw JSON in it that Python would not write."""
    return GOOD[:-1] + b", " + fields.encode() + b"}"


def user(*blocks: Json) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}]}


def foreign(fields: Json, where: str, *, stream: bool = False) -> Refused:
    """A field of the messages dialect that a chat provider cannot take."""
    body = messages.ask("plain/0", stream=stream) | fields
    return Refused(400, "invalid_request_error", MESSAGES, body, where)


FILE_ID: Final = {"type": "file", "file_id": "file_1"}
TOOL: Final[Json] = {"name": "t", "input_schema": {"type": "object"}}
NESTED: Final = b'{"metadata":' + b'{"a":' * 300 + b"1" + b"}" * 300 + b',"'
MANY: Final = b'{"metadata":[' + b"0," * MAX_ELEMENTS + b'0],"'
COUNTED: Final = json.dumps(MESSAGE).encode()
NO_MONEY: Final = "The balance is 0.00 USD. Top it up in the console under Billing"
MAKES_NONE: Final = (
    "The model 'plain/0' is served at /v1/chat/completions or /v1/messages or /v1/responses alone."
)
MAKES_ONLY: Final = "The model 'embed/0' is served at /v1/embeddings alone."
MISTYPED: Final = "did you mean 'embed-demo/0'?"

UNKNOWN_PATHS: Final = (
    *("/", "/v1", "/v1/nothing", f"{CHAT}/", f"/v1{CHAT}", "/v1/../admin", "/v1/%2e%2e/admin"),
    *(f"/{CHAT}", "/v1/%zz", "/v1/chat%00completions", f"{CHAT};a=b", "/v1/chat/Completions"),
    *(f"{RESPONSES}/{rest}" for rest in ("resp_1", "resp_1/cancel", "compact", "input_tokens/x")),
    f"{EMBEDDINGS}/x",
)
"""Paths are compared unchanged: nothing is resolved, decoded or joined before."""
NO_PATHS: Final = {
    **{path: Refused(404, "unknown_url", path) for path in UNKNOWN_PATHS},
    **{
        f"{method} {path}": Refused(404, "unknown_url", path, told=NOT_SERVED, method=method)
        for path in (one.replace("...", "x") for one in UNSERVED)
        for method in ("GET", "POST")
        if not path.startswith(MESSAGES)
    },
    **{
        f"{MESSAGES}/{rest}": Refused(404, "not_found_error", f"{MESSAGES}/{rest}", account=None)
        for rest in ("nothing", "x/y", "batches")
    },
    "404 by a header": Refused(404, "not_found_error", "/v1/nothing", headers=ANTHROPIC, method="GET"),
    "no such model": Refused(404, "model_not_found", "/v1/models/no/such", method="GET"),
    "no such model by a header": Refused(404, "not_found_error", "/v1/models/no/such", headers=ANTHROPIC, method="GET"),
    "a mistyped model": Refused(404, "model_not_found", "/v1/models/embed-dmeo/0", told=MISTYPED, method="GET"),
}  # fmt: skip
NO_METHODS: Final = {
    "GET embeddings": Refused(405, "method_not_allowed", EMBEDDINGS, method="GET"),
    "GET messages": Refused(405, "invalid_request_error", MESSAGES, method="GET"),
    "POST models": Refused(405, "invalid_request_error", "/v1/models", headers=ANTHROPIC),
    "POST key": Refused(405, "invalid_request_error", "/v1/key", headers=ANTHROPIC),
}
NO_RIGHTS: Final = {
    **{
        f"401 {path}": Refused(
            401, "authentication_error", path, account=None, headers=ANTHROPIC, method="GET"
        )
        for path in ("/v1/models", "/v1/models/none", "/v1/key", "/v1/receipts/req_none")
    },
    **{
        f"401 {path}": Refused(401, "authentication_error", path, account=None)
        for path in (MESSAGES, COUNT_TOKENS)
    },
    "401 embeddings": Refused(401, "invalid_api_key", EMBEDDINGS, account=None),
    "402": Refused(402, "insufficient_quota", told=NO_MONEY, account="empty"),
    "402 of a stream": Refused(402, "insufficient_quota", body=BODY | {"stream": True}, account="empty"),
    "402 messages": Refused(402, "billing_error", MESSAGES, told=NO_MONEY, account="empty"),
    "402 embeddings": Refused(402, "insufficient_quota", EMBEDDINGS, account="empty"),
    "402 responses": Refused(402, "insufficient_quota", RESPONSES, account="empty"),
    "no count for the revoked": Refused(401, "authentication_error", COUNT_TOKENS, MESSAGE, account="revoked"),
    "no count for the suspended": Refused(403, "permission_error", COUNT_TOKENS, MESSAGE, account="suspended"),
    "no count of other models": Refused(403, "permission_error", COUNT_TOKENS, MESSAGE, account="picky"),
}  # fmt: skip
BAD_BODIES: Final = {
    "empty": bad(b""),
    "truncated": bad(GOOD[:-5]),
    "array": bad(b"[]"),
    "invalid utf-8": bad(GOOD.replace(b"hello", b"h\xffllo")),
    "lone surrogate": bad(GOOD.replace(b"hello", rb"\ud800")),
    "nan": bad(with_fields('"temperature": NaN')),
    "5 000 digits": bad(with_fields('"max_tokens": ' + "1" * 5000)),
    "depth": bad(with_fields('"x": ' + "[" * 100_000 + "]" * 100_000)),
    "depth in an object": bad(with_fields('"x": ' + '{"a":' * 50_000 + "1" + "}" * 50_000)),
    "max_tokens": bad(with_fields('"max_tokens": -1'), "max_tokens", "integer_below_min_value"),
    "n": bad(with_fields('"n": 129'), "n", "integer_above_max_value"),
    "messages": bad(with_fields('"messages": ["hi"]'), "messages[0]", "invalid_type"),
    "no embedding": bad(b"{", path=EMBEDDINGS),
    "empty input": bad(embed("embed/0", ""), "input", "empty_string", path=EMBEDDINGS),
    "stored": bad(responses.ask("responses/0", previous_response_id="r"), "previous_response_id", "unsupported_parameter", path=RESPONSES),
    "a deep count": Refused(400, "invalid_request_error", COUNT_TOKENS, COUNTED.replace(b'{"', NESTED, 1)),
}  # fmt: skip
"""One of each kind: which values are wrong is known to the tests of the dialect."""
BAD_MODELS: Final = {
    **{
        f"model {model[:20]}": bad(say(model), "model", "model_not_found")
        for model in ("no-such-model", "../x", "plain/0/", "m" * 10_000, "<script>", "PLAIN/0", "")
    },
    "nothing to embed by": bad(embed("no/such"), "model", "model_not_found", path=EMBEDDINGS),
    "nothing to count by": Refused(400, "invalid_request_error", COUNT_TOKENS, messages.ask("none")),
    "talks": bad(embed("plain/0"), "model", "unsupported_value", told=MAKES_NONE, path=EMBEDDINGS),
    "embeds": bad(say("embed/0"), "model", "unsupported_value", told=MAKES_ONLY),
    **{
        f"embeds, {path}": Refused(400, "invalid_request_error", path, messages.ask("embed/0"))
        for path in (MESSAGES, COUNT_TOKENS)
    },
    **{
        f"mistyped, {path}": bad(
            {**BODY, "model": "embed-dmeo/0", "input": "x"}, "model", "model_not_found", told=MISTYPED, path=path
        )
        for path in (CHAT, EMBEDDINGS, RESPONSES)
    },
    "mistyped, messages": Refused(400, "invalid_request_error", MESSAGES, messages.ask("embed-dmeo/0"), MISTYPED),
}  # fmt: skip
CANNOT_BE_CARRIED: Final = {
    "top_k": foreign({"top_k": 5}, "top_k"),
    "top_k, a stream": foreign({"top_k": 5}, "top_k", stream=True),
    "brand_new": foreign({"brand_new": {"a": 1}}, "brand_new"),
    "in a tool": foreign({"tools": [TOOL | {"brand_new": 1}]}, "tools.0.brand_new"),
    "a file": foreign(
        user({"type": "image", "source": FILE_ID}), "messages.0.content.0.source"
    ),
    "thinking": foreign({"thinking": {"type": "adaptive", "x": 1}}, "thinking.x"),
    "n over messages": bad(say("messages/0", n=2), "n", "unsupported_parameter", told="n"),
    "unknown to messages": bad(say("messages/0", brand_new=1), "brand_new", "unsupported_parameter"),
    "a file over messages": bad(
        say("messages/0") | user({"type": "file", "file": FILE_ID}),
        "messages[0].content[0].file.file_id",
        "unsupported_parameter",
    ),
}  # fmt: skip
"""Over a provider of the other dialect; the translations know all rows."""
TYPES: Final = (
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "",
)
"""A form of another site cannot send JSON, and other content is not guessed at."""
ENCODINGS: Final = ("gzip", "deflate", "br", "zstd", "gzip, gzip, gzip", "x-unknown")
BOMB: Final = gzip.compress(GOOD + b" " * 2**20)
"""It is never unpacked."""
BAD_CONTENT: Final = {
    "no type": Refused(415, "unsupported_media_type", headers={}),
    **{f"type {one}": Refused(415, "unsupported_media_type", headers={"Content-Type": one}) for one in TYPES},
    "type, messages": Refused(415, "invalid_request_error", MESSAGES, headers={"Content-Type": "text/plain"}),
    **{
        f"encoding {one}": Refused(415, "unsupported_media_type", body=BOMB, headers=JSON | {"Content-Encoding": one})
        for one in ENCODINGS
    },
    "large message": Refused(413, "request_too_large", MESSAGES, b" " * (1 << 20) + b"{}"),
    "large input": Refused(413, "request_too_large", EMBEDDINGS, embed("embed/0", "x" * 2**20)),
    "many elements": Refused(413, "request_too_large", COUNT_TOKENS, COUNTED.replace(b'{"', MANY, 1)),
}  # fmt: skip
TEXT: Final = {"Content-Type": "text/plain"}
ORDER: Final = {
    "404 before 401": Refused(404, "unknown_url", "/v1/nothing", account=None),
    "401 before 415": Refused(401, "invalid_api_key", account=None, headers=TEXT),
    "401 before 413": Refused(401, "invalid_api_key", body=b"x" * (1 << 20 | 1), account=None),
    "403 before 402": Refused(403, "account_suspended", account="suspended-empty"),
    "403 before 400": Refused(403, "account_suspended", body=b"no json", account="suspended"),
    "402 before 415": Refused(402, "insufficient_quota", account="empty", headers=TEXT),
    "402 before 400": Refused(402, "insufficient_quota", body=b"no json", account="empty"),
    "415 before 400": Refused(415, "unsupported_media_type", body=b"no json", headers={}),
    "400 before 403": Refused(400, None, body=b"no json", account="picky"),
    "403 of the model": Refused(403, "model_not_allowed", account="picky"),
}
"""The first fault in this order is told."""
TABLES: Final = (
    NO_PATHS,
    NO_METHODS,
    NO_RIGHTS,
    BAD_BODIES,
    BAD_MODELS,
    CANNOT_BE_CARRIED,
    BAD_CONTENT,
    ORDER,
)


async def test_what_is_refused_reaches_neither_provider_nor_ledger(stage: Stage) -> None:
    replies: list[Reply] = []
    with told_together() as row:
        for name, one in ((name, one) for table in TABLES for name, one in table.items()):
            with row(name):
                replies.append(reply := await one.send(stage))
                if one.is_messages:
                    check_messages_error(reply, one.status, str(one.word))
                else:
                    check_error(reply, one.status, one.word, param=one.param)
                assert one.told in reply.json["error"]["message"]
                assert b"xyzzy" not in reply.body, "no prompt in an error"
                assert len(reply.body) < 1000, "nothing long is repeated"
                assert stage.books.request(reply.request_id) is None
                assert stage.alpha.connections == 0
    for reply in replies:
        await stage.check_log(reply)


def bearer(key: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {key}")]


BAD_KEYS: Final[dict[str, list[tuple[str, str]]]] = {
    "no key": [],
    "empty header": [("Authorization", "")],
    "basic authentication": [("Authorization", "Basic dXNlcjpwYXNz")],
    "bearer only": [("Authorization", "Bearer")],
    "bearer and space": bearer(""),
    "x-api-key empty": [("x-api-key", "")],
    "never made": bearer(make_key()),
    "not of ours": bearer("sk-proj-abcdefghijklmnop"),
    "prefix alone": bearer("sk-ru-"),
    "spaces": bearer(f"{make_key()} {make_key()}"),
    "quotes": bearer("\"'`\\"),
    "sql": bearer("' OR 1=1; DROP TABLE keys; --"),
    "a key of 4 kB": bearer("k" * 4096),
    "0xff": bearer("\xff\xfe"),
    "x-api-key": [("x-api-key", make_key())],
    "a cookie": [("Cookie", "session=abcdef")],
}


async def test_all_keys_of_our_shape_that_never_were_get_one_text(stage: Stage) -> None:
    key = stage.key
    near_miss = key[:-1] + ("a" if key[-1] != "a" else "b")
    variants = (key.lower(), key.upper(), key[:-1], key + "0", near_miss)
    texts = set()
    with told_together() as row:
        for sent in (*BAD_KEYS.values(), *map(bearer, variants)):
            with row(str(sent)[:40]):
                headers = [*JSON.items(), *sent]
                reply = await stage.gateway.ask("POST", CHAT, headers=headers, body=GOOD)
                told = check_error(reply, 401, "invalid_api_key")
                if "sk-ru-" in str(sent):
                    texts.add(told)
    assert len(texts) == 1


async def test_a_key_in_the_address_is_neither_taken_nor_logged(stage: Stage) -> None:
    """Query strings end up in logs."""
    key = stage.key
    for name in ("key", "api_key"):
        reply = await stage.gateway.ask("GET", f"/v1/models?{name}={key}", headers={})
        assert "header" in check_error(reply, 401, "invalid_api_key").lower()
    reply = await stage.gateway.ask("GET", f"/v1/{key}", key=key)
    await stage.check_log(reply)
    assert key not in stage.gateway.log


@each_row("scheme", ["Bearer", "bearer", "BEARER"])
async def test_both_headers_are_keys(stage: Stage, scheme: str) -> None:
    own, bearer = {"x-api-key": stage.key}, {"Authorization": f"{scheme} {stage.key}"}
    for headers in (bearer, own, own | bearer):
        assert (await stage.gateway.ask("GET", "/v1/models", headers=headers)).status == 200


async def test_two_different_keys_are_refused(stage: Stage) -> None:
    """With two keys it would be unclear who pays."""
    other = stage.callers["empty"].key
    for first in ([("x-api-key", other)], bearer(other)):
        headers = [*JSON.items(), *first, *bearer(stage.key)]
        reply = await stage.gateway.ask("POST", CHAT, headers=headers, body=GOOD)
        assert reply.status in {400, 401}
    assert stage.alpha.connections == 0
