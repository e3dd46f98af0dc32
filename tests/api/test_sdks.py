"""The real `openai` and `anthropic` packages: their exceptions, retries, pages and loops.

What is said by them over every kind of provider is in `test_pairs`, tools are in `tests.agents`.
"""

from __future__ import annotations

from typing import Any, Final

import anthropic
import openai
import pytest

from tests.support.chat import Used
from tests.support.config import KINDS
from tests.support.content import Content, ToolCall
from tests.support.messages import make_message
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, Provider
from tests.support.replies import completion, error_reply, json_reply
from tests.support.rows import each_row
from tests.support.sdks import Clients
from tests.support.stage import Stage
from tests.support.upstream import End, Script

HELLO: Final[Any] = [{"role": "user", "content": "Say hello."}]
SDKS: Final = ("openai", "anthropic")
PREFIX: Final = {"openai": "", "anthropic": "messages-"}
each_provider = each_row("provider", [CHAT_PROVIDER, MESSAGES_PROVIDER])


def reply_to(sdk: str, text: str = "Hi") -> Script:
    return json_reply(completion(text) if sdk == "openai" else make_message(text))


def kind_of(sdk: str) -> str:
    return "plain" if sdk == "openai" else "messages"


async def ask(clients: Clients, sdk: str, model: str, **options: Any) -> Any:
    """Ask as the SDK does; the options are the client's."""
    if sdk == "openai":
        chat = clients.chat.with_options(**options).chat.completions
        return await chat.create(model=model, messages=HELLO)
    messages = clients.messages.with_options(**options).messages
    return await messages.create(model=model, messages=HELLO, max_tokens=9)


@each_row("sdk", SDKS)
async def test_retries_of_the_sdk_get_through(
    stage: Stage, clients: Clients, sdk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for as long as it is told to."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    before, status = len(stage.alpha.exchanges), 503 if sdk == "openai" else 529
    stage.alpha.play(
        *[error_reply(status, headers={"Retry-After": "7"})] * 2, reply_to(sdk, "third")
    )
    monkeypatch.setattr("anyio.sleep", note)
    reply = await ask(clients, sdk, stage.fresh(kind_of(sdk)), max_retries=2)
    assert "third" in reply.model_dump_json()
    assert (len(stage.alpha.exchanges) - before, waits) == (3, [7.0, 7.0])


@each_row("sdk", SDKS)
async def test_work_that_may_be_done_is_not_retried(
    stage: Stage, clients: Clients, sdk: str
) -> None:
    """After a time-out `x-should-retry: false` keeps the SDK from retrying."""
    before = len(stage.alpha.exchanges)
    stage.alpha.always([End.HANG])
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
        await ask(clients, sdk, stage.fresh(f"{PREFIX[sdk]}brisk"), max_retries=2)
    assert len(stage.alpha.exchanges) == before + 1


async def test_a_rejection_comes_back_with_its_words_and_details(
    stage: Stage, clients: Clients
) -> None:
    """The message names the model as the caller does; the SDK needs `details` to recover a thread."""
    model = stage.fresh("messages")
    error = {
        "type": "invalid_request_error",
        "message": "up-model: prompt is too long",
        "details": {"error_code": "thread_not_found"},
    }
    stage.alpha.play(json_reply({"type": "error", "error": error, "request_id": "req_u"}, 400))
    with pytest.raises(anthropic.BadRequestError, match=f"{model}: prompt is too long") as caught:
        await ask(clients, "anthropic", model)
    assert caught.value.error_code == "thread_not_found"
    assert caught.value.request_id not in {None, "req_u"}
    assert await stage.books.charge_nano(caught.value.request_id or "") == 0


@each_provider
async def test_raw_response_tells_request_id_and_cost(
    stage: Stage, clients: Clients, provider: Provider
) -> None:
    stage.alpha.play(provider.reply(Content("Hi")), provider.stream(Content("Hi")))
    options: Any = {"model": stage.fresh(provider.kind), "messages": HELLO, "max_tokens": 10}
    messages = clients.messages.messages
    raw = await messages.with_raw_response.create(**options)
    assert "x-gateway-cost" in raw.headers
    message = await raw.parse()
    assert await stage.books.charge_nano(message._request_id or "") == Used(11, 7).cost_nano
    async with messages.stream(**options) as stream:
        await stream.until_done()
        assert await stage.books.charge_nano(stream.request_id or "") == Used(11, 7).cost_nano


async def test_models_are_listed_page_by_page(clients: Clients) -> None:
    """There is more than a page of 20: the SDK turns the pages itself, in both directions."""
    models = clients.messages.models
    whole = [model.id async for model in models.list(limit=1000)]
    assert (
        len(whole)
        == len(set(whole))
        == sum(kind.count for kind in KINDS.values() if kind.is_served)
    )
    assert [entry.id async for entry in clients.chat.models.list()] == whole
    first = await models.list()
    assert [model.id for model in first.data] == whole[:20]
    assert first.has_more
    assert [model.id async for model in models.list(limit=90)] == whole
    assert [model.id async for model in models.list(after_id=whole[-50])] == whole[-49:]
    before = [model.id async for model in models.list(before_id=whole[45])]
    assert sorted(before) == sorted(whole[:45])


async def test_models_are_retrieved_by_ids_with_slashes(stage: Stage, clients: Clients) -> None:
    model = stage.fresh("messages")
    one = await clients.messages.models.retrieve(model)
    assert (one.id, one.type, one.display_name) == (model, "model", model)
    assert one.max_tokens == 4096
    other = await clients.chat.models.retrieve(model)
    assert (other.id, other.object, other.owned_by) == (model, "model", "tester")


@each_provider
@each_row("stream", [False, True])
async def test_tool_runner_runs(
    stage: Stage, clients: Clients, provider: Provider, *, stream: bool
) -> None:
    """The SDK's own agent loop, unchanged: it asks for a server-side thread first."""
    asked: list[str] = []

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return f"sunny in {city}"

    calls = [ToolCall(f"toolu_{city}", "weather", {"city": city}) for city in ("Rome", "Oslo")]
    say = provider.stream if stream else provider.reply
    stage.alpha.play(say(Content(calls=calls, finish="tool_calls")), say(Content("Sunny.")))
    runner: Any = clients.messages.beta.messages.tool_runner(
        model=stage.fresh(provider.kind),
        max_tokens=99,
        tools=[weather],
        messages=HELLO,
        stream=stream,
    )
    final = await runner.until_done()
    assert sorted(asked) == ["Oslo", "Rome"]
    assert [block.text for block in final.content if block.type == "text"] == ["Sunny."]
    assert "Rome" in stage.alpha.last.body.decode()
