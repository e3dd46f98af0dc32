"""The vendors' SDKs as agents: what they return of a turn is what they make of it themselves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import anthropic
import openai

from tests.agents.loop import (
    Agent,
    ChatAgent,
    MessagesAgent,
    ResponsesAgent,
    Said,
    gather,
    read_blocks,
    read_items,
    read_message,
)
from tests.support.replies import Json


class _OpenAIAgent(Agent):
    @cached_property
    def client(self) -> openai.AsyncOpenAI:
        url = self.gateway.base_url
        return openai.AsyncOpenAI(base_url=url, api_key=self.key, max_retries=0)

    async def close(self) -> None:
        await self.client.close()


class OpenAIChat(ChatAgent, _OpenAIAgent):
    """It appends the message object, which has the vendors' members; of a stream, text and calls."""

    async def send(self, body: Json) -> Any:
        create = self.client.chat.completions.create
        if not self.stream:
            return (await create(**body)).choices[0].message
        return gather(
            [chunk.model_dump(warnings=False) async for chunk in await create(**body, stream=True)]
        )

    def keep(self, whole: Any) -> Said:
        if isinstance(whole, dict):
            return super().keep(whole)
        self.history.append(whole)
        return read_message(whole.model_dump(warnings=False))


class OpenAIResponses(ResponsesAgent, _OpenAIAgent):
    async def send(self, body: Json) -> Any:
        if not self.stream:
            return (await self.client.responses.create(**body)).output
        async with self.client.responses.stream(**body) as stream:
            return (await stream.get_final_response()).output

    def keep(self, whole: Any) -> Said:
        self.history += whole
        return read_items([item.model_dump(warnings=False) for item in whole])


class Anthropic(MessagesAgent):
    @cached_property
    def client(self) -> anthropic.AsyncAnthropic:
        url = self.gateway.root_url
        return anthropic.AsyncAnthropic(base_url=url, api_key=self.key, max_retries=0)

    async def close(self) -> None:
        await self.client.close()

    async def send(self, body: Json) -> Any:
        if not self.stream:
            return (await self.client.messages.create(**body)).content
        async with self.client.messages.stream(**body) as stream:
            return (await stream.get_final_message()).content

    def keep(self, whole: Any) -> Said:
        self.history.append({"role": "assistant", "content": whole})
        return read_blocks([block.model_dump(warnings=False) for block in whole])
