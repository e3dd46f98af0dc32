"""Idempotent routes: each needs an Idempotency-Key, and a repeated request changes nothing.

Every route that moves money is one. The first reply is stored in the same transaction as its
effect; a request with the same key and body gets that reply again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from gateway.admin import checks
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, ConsoleRequest, Handler
from gateway.ledger.records import OtherRequest, RepeatableRequest, StoredReply
from gateway.ledger.sql.books.books import Books

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = {"Idempotent-Replay": "true"}


def idempotent(
    function: Callable[[Books, ConsoleRequest], Answer],
    repeat: Callable[[Answer], Answer] = lambda answer: answer,
) -> Handler:
    """Make a handler that runs `function` in the books' thread at most once per key.

    `repeat` turns the stored reply into the reply to a repeated request; it may raise ConsoleError.
    """

    async def handle(request: ConsoleRequest) -> Answer:
        repeatable = _read_repeatable(request)
        return await request.run(partial(_run, function, repeat, request, repeatable))

    return handle


def _run(
    function: Callable[[Books, ConsoleRequest], Answer],
    repeat: Callable[[Answer], Answer],
    request: ConsoleRequest,
    repeatable: RepeatableRequest,
    books: Books,
) -> Answer:
    fresh: list[Answer] = []

    def do() -> StoredReply:
        answer = function(books, request)
        fresh.append(answer)
        kept = answer.body if answer.kept is None else answer.kept
        return StoredReply(answer.status, orjson.dumps(kept))

    try:
        kept, is_repeated = books.replays.run_once(repeatable, do)
    except OtherRequest as error:
        raise ConsoleError(
            409,
            "idempotency_conflict",
            "This was sent before with other values, under the same Idempotency-Key. In the console, reload"
            " the page and fill in the form again; in a script, take another Idempotency-Key.",
        ) from error
    if not is_repeated:
        return fresh[0]
    return replace(repeat(Answer(kept.reply, kept.status)), headers=REPLAYED)


def _read_repeatable(request: ConsoleRequest) -> RepeatableRequest:
    key = request.http.headers.get(HEADER, "")
    if not key:
        raise ConsoleError(
            400,
            "idempotency_key_missing",
            f"Send the header {HEADER} with a value of your own, so that a repeated request does"
            " not move money again.",
        )
    if len(key) > checks.MAX_IDEMPOTENCY_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise ConsoleError(
            400,
            "invalid_field",
            f"The header {HEADER} must be printable ASCII of at most {checks.MAX_IDEMPOTENCY_KEY_CHARS} characters.",
        )
    body_hash = hashlib.sha256(request.body).digest()
    caller = request.token.actor if request.token else str(request.account.id)
    return RepeatableRequest(caller, request.http.path, key, body_hash)
