"""The exceptions and retries of the real `anthropic` package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic
import pytest

from tests.support.messages import make_message
from tests.support.replies import (
    error_reply,
    json_reply,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import End, Wait

HELLO: Any = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
async def aclient(stage: Stage) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=stage.gateway.root_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


Use = Callable[[Stage, anthropic.AsyncAnthropic], Any]


def ask_as(account: str | None, kind: str = "messages", model: str | None = None) -> Use:
    async def ask(stage: Stage, client: anthropic.AsyncAnthropic) -> None:
        key = "sk-ru-nonsense" if account is None else stage.callers[account].key
        await client.with_options(api_key=key).messages.create(
            model=model or stage.fresh(kind), messages=HELLO, max_tokens=9
        )

    return ask


def retrieve_unknown(stage: Stage, client: anthropic.AsyncAnthropic) -> Any:  # noqa: ARG001 - as the others
    return client.models.retrieve("no/such")


ERRORS: dict[str, tuple[Use, type[anthropic.APIStatusError], int, str]] = {
    "400": (ask_as("rich", model="none"), anthropic.BadRequestError, 400, "invalid_request_error"),
    "401": (ask_as(None), anthropic.AuthenticationError, 401, "authentication_error"),
    "402": (ask_as("empty"), anthropic.PaymentRequiredError, 402, "billing_error"),
    "403": (ask_as("suspended"), anthropic.PermissionDeniedError, 403, "permission_error"),
    "403 model": (ask_as("picky"), anthropic.PermissionDeniedError, 403, "permission_error"),
    "404": (retrieve_unknown, anthropic.NotFoundError, 404, "not_found_error"),
    "502": (ask_as("rich"), anthropic.InternalServerError, 502, "api_error"),
    "502 over chat": (ask_as("rich", "plain"), anthropic.InternalServerError, 502, "api_error"),
    "503": (
        ask_as("rich", "refused-messages"),
        anthropic.ServiceUnavailableError,
        503,
        "overloaded_error",
    ),
}


@each_row("name", ERRORS)
async def test_each_status_is_the_sdks_exception(
    stage: Stage, aclient: anthropic.AsyncAnthropic, name: str
) -> None:
    use, kind, status, error_type = ERRORS[name]
    stage.alpha.always(error_reply(500))
    with pytest.raises(kind) as caught:
        await use(stage, aclient)
    assert (caught.value.status_code, caught.value.type) == (status, error_type)
    assert caught.value.request_id
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["request_id"] == caught.value.request_id


async def test_rate_limit_is_the_sdks_exception(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    busy = asyncio.Event()
    stage.alpha.always([Wait(busy), *json_reply(make_message())])
    limited = aclient.with_options(api_key=stage.callers["one-at-a-time"].key)
    model = stage.fresh("messages")
    async with asyncio.TaskGroup() as group:
        group.create_task(limited.messages.create(model=model, messages=HELLO, max_tokens=9))
        await stage.alpha.wait_for(1)
        with pytest.raises(anthropic.RateLimitError) as caught:
            await limited.messages.create(model=model, messages=HELLO, max_tokens=9)
        busy.set()
    assert caught.value.type == "rate_limit_error"
    assert 0 <= int(caught.value.response.headers["retry-after"]) <= 60


async def test_rejection_of_the_provider_comes_back_with_its_words(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    """The message names the model as the caller does; nothing is charged."""
    model = stage.fresh("messages")
    error = {"type": "invalid_request_error", "message": "up-model: prompt is too long"}
    stage.alpha.play(json_reply({"type": "error", "error": error, "request_id": "req_u"}, 400))
    with pytest.raises(anthropic.BadRequestError, match=f"{model}: prompt is too long") as caught:
        await aclient.messages.create(model=model, messages=HELLO, max_tokens=9)
    assert caught.value.request_id not in {None, "req_u"}
    assert await stage.books.charge_nano(caught.value.request_id or "") == 0


async def test_retries_of_the_sdk_get_through(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    stage.alpha.play(error_reply(529), json_reply(make_message("second")))
    reply = await aclient.with_options(max_retries=2).messages.create(
        model=stage.fresh("messages"), messages=HELLO, max_tokens=9
    )
    assert [block.text for block in reply.content if block.type == "text"] == ["second"]
    assert len(stage.alpha.exchanges) == 2


async def test_work_that_may_be_done_is_not_retried(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    stage.alpha.always([End.HANG])
    with pytest.raises(anthropic.InternalServerError):
        await aclient.with_options(max_retries=2).messages.create(
            model=stage.fresh("messages-brisk"), messages=HELLO, max_tokens=9
        )
    assert len(stage.alpha.exchanges) == 1


async def test_details_of_a_rejection_are_kept(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    """The SDK needs `error.details.error_code` to recover a thread."""
    details = {"error_code": "thread_not_found"}
    error = {"type": "invalid_request_error", "message": "no thread", "details": details}
    stage.alpha.play(json_reply({"type": "error", "error": error, "request_id": "req_u"}, 400))
    with pytest.raises(anthropic.BadRequestError) as caught:
        await aclient.messages.create(model=stage.fresh("messages"), messages=HELLO, max_tokens=9)
    assert caught.value.error_code == "thread_not_found"
