"""The stage of a black-box test: the shared gateway, two upstreams, a caller, the books."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from tests.support.books import Books, RequestRow
from tests.support.client import Call, Reply
from tests.support.process import MESSAGES, GatewayProcess
from tests.support.running import Running
from tests.support.seed import Caller
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until


@dataclass(frozen=True, slots=True)
class Stage:
    """The objects of a test. Most models route to `alpha`; `beta` is the second route."""

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
        """Return the key of an account with plenty of money."""
        return self.callers["rich"].key

    @property
    def secret(self) -> str:
        """Return the key by which the gateway calls `alpha`."""
        return self.running.places.secrets["alpha"]

    def fresh(self, kind: str) -> str:
        """Return a model of that kind which no test has used yet."""
        return self.gateway.fresh(kind)

    async def chat(
        self, body: object, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Ask for a chat completion, by default as the rich caller."""
        return await self.gateway.chat(key or self.key, body, headers=headers)

    def chatting(
        self, body: object, *, key: str | None = None
    ) -> AbstractAsyncContextManager[Call]:
        return self.gateway.chatting(key or self.key, body)

    async def message(
        self, body: object, *, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Ask for a message, by default as the rich caller."""
        return await self.gateway.post(MESSAGES, key or self.key, body, headers=headers)

    async def charge_nano(self, reply: Reply) -> int:
        return await self.books.charge_nano(reply.request_id)

    async def settled(self, reply: Reply) -> RequestRow:
        return await self.books.settled(reply.request_id)

    async def check_log(self, reply: Reply) -> None:
        """Check that one line reports the request, without its content."""
        gateway = self.gateway
        await until(lambda: reply.request_id in gateway.log, "a line in the log")
        (line,) = [one for one in gateway.log.splitlines() if reply.request_id in one]
        assert len(line) < 1000
        assert "Traceback" not in gateway.log
