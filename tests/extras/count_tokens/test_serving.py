"""Counts of tokens: `played.txt` has the rest."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from gateway.base.errors import BodyTooLarge, Overloaded, RateLimited
from gateway.extras.count_tokens.paths import COUNT_MESSAGES
from gateway.extras.count_tokens.serving import Counting, count_tokens
from tests.api.test_bodies import MANY, MESSAGE, NESTED
from tests.support.chat import check_messages_error
from tests.support.messages import ask, make_message
from tests.support.process import COUNT_TOKENS
from tests.support.records import make_call
from tests.support.replies import error_reply, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage
from tests.support.upstream import Wait

MAX_COUNT_BYTES, MAX_COUNTS, MAX_OWN_COUNTS = 4 << 20, 32, 8


async def test_provider_that_cannot_count_can_still_answer(stage: Stage) -> None:
    """Imitations lack this path, and agents count often, so it must not open the breaker."""
    model = stage.fresh("messages")
    message, lost = json_reply(make_message()), error_reply(404)
    stage.alpha.always(lambda one: lost if one.target == COUNT_TOKENS else message)
    for _ in range(8):
        await stage.gateway.post(COUNT_TOKENS, stage.key, ask(model))
    assert (await stage.message(ask(model))).status == 200


async def test_an_account_counts_few_at_once(stage: Stage, spare: Caller) -> None:
    """A count holds a body and a connection and costs nothing, so others must not wait for it."""
    gate, key = asyncio.Event(), spare.key
    stage.alpha.always([Wait(gate), *json_reply({"input_tokens": 1})])
    body = ask(stage.fresh("messages"))
    post = partial(stage.gateway.post, COUNT_TOKENS, key, body)
    before = len(stage.alpha.exchanges)
    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(post()) for _ in range(MAX_OWN_COUNTS)]
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS)
        check_messages_error(await post(), 429, "rate_limit_error")
        others = group.create_task(stage.gateway.post(COUNT_TOKENS, stage.key, body))
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS + 1)
        gate.set()
    assert [one.result().status for one in (*counts, others)] == [200] * (MAX_OWN_COUNTS + 1)
    assert (await post()).status == 200


async def test_a_body_to_count_has_a_limit_of_its_own() -> None:
    """Counting is free, so its bodies are smaller than those that are paid for."""
    config = SimpleNamespace(server=SimpleNamespace(max_body_mb=32))
    key = SimpleNamespace(account=SimpleNamespace(id=1))
    http = MagicMock(
        content_length=MAX_COUNT_BYTES + 1, headers={"Content-Type": "application/json"}
    )
    http.content.is_eof.return_value = False
    call = make_call(
        gateway=SimpleNamespace(config=config, find_offers=lambda kind: [kind()]), key=key
    )
    with pytest.raises(BodyTooLarge, match="4 MiB"):
        await count_tokens(COUNT_MESSAGES, http, call)


@each_row(
    ("head", "status", "told"),
    [(NESTED, 400, "nested too deeply"), (MANY, 413, "more than 300,000 JSON values")],
)
@each_row("model", ["messages/0", "plain/0"])
async def test_a_body_that_is_dear_to_read_is_refused(
    stage: Stage, model: str, head: bytes, status: int, told: str
) -> None:
    """Whether the provider would count it or the gateway estimates."""
    body = MESSAGE.replace(b"messages/0", model.encode()).replace(b'{"', head, 1)
    reply = await stage.gateway.post(COUNT_TOKENS, stage.key, body)
    kind = "invalid_request_error" if status == 400 else "request_too_large"
    check_messages_error(reply, status, kind)
    assert told in reply.json["error"]["message"]
    assert stage.alpha.connections == 0


def test_few_tokens_are_counted_at_once_for_an_account_and_for_all() -> None:
    """A count that fails gives its place back."""
    counting = Counting()
    for _ in range(MAX_COUNTS + 1):
        with pytest.raises(OSError, match="fails"), counting.admit(0):
            raise OSError("fails")
    for _ in range(2):
        with ExitStack() as counts:
            for number in range(MAX_COUNTS):
                counts.enter_context(counting.admit(number // MAX_OWN_COUNTS))
                if number == MAX_OWN_COUNTS:
                    with pytest.raises(RateLimited), counting.admit(0):
                        pass
            with pytest.raises(Overloaded), counting.admit(MAX_COUNTS):
                pass
