"""The real `openai` package, changed only in base address and key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import openai
import pytest

from tests.support.replies import (
    completion,
    error_reply,
    json_reply,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import End, Wait

HELLO: Any = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
async def aclient(stage: Stage) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=stage.gateway.base_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


async def test_models_are_retrieved_by_ids_with_slashes(
    stage: Stage, aclient: openai.AsyncOpenAI
) -> None:
    model = stage.fresh("plain")
    one = await aclient.models.retrieve(model)
    assert (one.id, one.object, one.owned_by) == (model, "model", "tester")
    assert [entry.id async for entry in aclient.models.list()].count(model) == 1


Use = Callable[[Stage, openai.AsyncOpenAI], Any]
NOT_FOUND: Use = lambda _, client: client.models.retrieve("no/such")  # noqa: E731 - a table below


def ask_as(account: str | None, kind: str = "plain", model: str | None = None) -> Use:
    async def ask(stage: Stage, client: openai.AsyncOpenAI) -> None:
        key = "sk-ru-nonsense" if account is None else stage.callers[account].key
        await client.with_options(api_key=key).chat.completions.create(
            model=model or stage.fresh(kind), messages=HELLO
        )

    return ask


EXCEPTIONS: dict[str, tuple[Use, type[openai.APIStatusError], int, str]] = {
    "400": (ask_as("rich", model="none"), openai.BadRequestError, 400, "model_not_found"),
    "401": (ask_as(None), openai.AuthenticationError, 401, "invalid_api_key"),
    "402": (ask_as("empty"), openai.APIStatusError, 402, "insufficient_quota"),
    "403": (ask_as("suspended"), openai.PermissionDeniedError, 403, "account_suspended"),
    "403 model": (ask_as("picky"), openai.PermissionDeniedError, 403, "model_not_allowed"),
    "404": (NOT_FOUND, openai.NotFoundError, 404, "model_not_found"),
    "502": (ask_as("rich"), openai.InternalServerError, 502, "upstream_error"),
    "503": (ask_as("rich", "refused"), openai.InternalServerError, 503, "upstream_unavailable"),
}


@each_row("name", EXCEPTIONS)
async def test_each_status_is_the_sdks_exception(
    stage: Stage, aclient: openai.AsyncOpenAI, name: str
) -> None:
    use, kind, status, code = EXCEPTIONS[name]
    stage.alpha.always(error_reply(500))
    with pytest.raises(kind) as caught:
        await use(stage, aclient)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.request_id
    assert caught.value.type
    assert isinstance(caught.value.body, dict)


async def test_rate_limit_is_the_sdks_exception(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    busy = asyncio.Event()
    stage.alpha.always([Wait(busy), *json_reply(completion())])
    limited = aclient.with_options(api_key=stage.callers["one-at-a-time"].key)
    model = stage.fresh("plain")
    async with asyncio.TaskGroup() as group:
        group.create_task(limited.chat.completions.create(model=model, messages=HELLO))
        await stage.alpha.wait_for(1)
        with pytest.raises(openai.RateLimitError) as caught:
            await limited.chat.completions.create(model=model, messages=HELLO)
        busy.set()
    assert caught.value.code == "rate_limit_exceeded"


async def test_retries_of_the_sdk_get_through(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    stage.alpha.play(error_reply(503), error_reply(503), json_reply(completion("third")))
    model = stage.fresh("plain")
    reply = await aclient.with_options(max_retries=2).chat.completions.create(
        model=model, messages=HELLO
    )
    assert reply.choices[0].message.content == "third"
    assert len(stage.alpha.exchanges) == 3


async def test_work_that_may_be_done_is_not_retried(
    stage: Stage, aclient: openai.AsyncOpenAI
) -> None:
    """After a time-out `x-should-retry: false` keeps the SDK from retrying."""
    stage.alpha.always([End.HANG])
    with pytest.raises(openai.InternalServerError) as caught:
        await aclient.with_options(max_retries=2).chat.completions.create(
            model=stage.fresh("brisk"), messages=HELLO
        )
    assert caught.value.code == "upstream_timeout"
    assert len(stage.alpha.exchanges) == 1
