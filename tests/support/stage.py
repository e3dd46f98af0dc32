"""All that a black-box test acts with: the shared gateway, two upstreams, a caller, the books."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from support.books import Books, RequestRow
from support.client import Call, Reply
from support.process import MESSAGES, GatewayProcess
from support.running import Running
from support.seed import Caller
from support.upstream import ScriptedUpstream


@dataclass(frozen=True, slots=True)
class Stage:
    """`alpha` is where most models lead; `beta` is the second route, elsewhere a witness."""

    running: Running
    alpha: ScriptedUpstream
    beta: ScriptedUpstream

    @property
    def gateway(self) -> GatewayProcess:
        return self.running.gateway

    @property
    def books(self) -> Books:
        return self.running.books

    @property
    def callers(self) -> dict[str, Caller]:
        return self.running.callers

    @property
    def key(self) -> str:
        """The key of an account that never runs dry."""
        return self.callers["rich"].key

    @property
    def secret(self) -> str:
        """What the gateway calls `alpha` with."""
        return self.running.places.secrets["alpha"]

    def fresh(self, kind: str) -> str:
        """A model of that kind which no test used before."""
        return self.gateway.fresh(kind)

    async def chat(
        self, body: object, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A chat completion, by the rich caller if by nobody else."""
        return await self.gateway.chat(key or self.key, body, headers=headers)

    def chatting(
        self, body: object, *, key: str | None = None
    ) -> AbstractAsyncContextManager[Call]:
        return self.gateway.chatting(key or self.key, body)

    async def message(
        self, body: object, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """A message, by the rich caller if by nobody else."""
        return await self.gateway.post(MESSAGES, key or self.key, body, headers=headers)

    async def charge_nano(self, reply: Reply) -> int:
        return await self.books.charge_nano(reply.request_id)

    async def settled(self, reply: Reply) -> RequestRow:
        return await self.books.settled(reply.request_id)
