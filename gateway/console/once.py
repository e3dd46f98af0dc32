"""Routes that move money: each needs an Idempotency-Key, and a repeated request changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import orjson

from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, Handler, Visit
from gateway.ledger.book_replays import Errand, Kept, OtherRequest
from gateway.ledger.books import Books

MAX_KEY_CHARS: Final = 200
HEADER: Final = "Idempotency-Key"
REPLAYED: Final = {"Idempotent-Replay": "true"}


def once(
    function: Callable[[Books, Visit], Answer],
    repeat: Callable[[Answer], Answer] = lambda answer: answer,
) -> Handler:
    """The function on the desk's thread, in one transaction with the reply that is kept.

    `repeat` makes of a kept reply what a repeated request gets; it may raise ConsoleError.
    """

    async def handle(visit: Visit) -> Answer:
        errand = _read_errand(visit)
        return await visit.run(partial(_run, function, repeat, visit, errand))

    return handle


def _run(
    function: Callable[[Books, Visit], Answer],
    repeat: Callable[[Answer], Answer],
    visit: Visit,
    errand: Errand,
    books: Books,
) -> Answer:
    fresh: list[Answer] = []

    def do() -> Kept:
        answer = function(books, visit)
        fresh.append(answer)
        kept = answer.body if answer.kept is None else answer.kept
        return Kept(answer.status, orjson.dumps(kept))

    try:
        kept, is_repeated = books.run_once(errand, do)
    except OtherRequest as error:
        raise ConsoleError(
            409, "idempotency_conflict", "This form was sent before with other figures. Reload it."
        ) from error
    if not is_repeated:
        return fresh[0]
    return replace(repeat(Answer(kept.reply, kept.status)), headers=REPLAYED)


def _read_errand(visit: Visit) -> Errand:
    key = visit.request.headers.get(HEADER, "")
    if not key:
        raise ConsoleError(
            400,
            "idempotency_key_missing",
            f"Send the header {HEADER} with a value of your own, so that a repeated request moves"
            " no money again.",
        )
    if len(key) > MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise ConsoleError(
            400,
            "invalid_field",
            f"The header {HEADER} must be printable ASCII of at most {MAX_KEY_CHARS} characters.",
        )
    request = hashlib.sha256(visit.body).digest()
    return Errand(visit.account.id, visit.request.path, key, request)
