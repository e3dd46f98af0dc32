"""A JSON reply that counts against the budget for bodies until its caller has read it."""

from __future__ import annotations

from aiohttp import web

from gateway.api.body import hold_reply, release_body
from gateway.api.state import CALL, GATEWAY


class HeldReply(web.Response):
    """aiohttp forgets a reply as soon as it is in the transport's buffer, which has no bound."""

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._req
        assert isinstance(request, web.Request)
        gateway, call = request.app[GATEWAY], request[CALL]
        hold_reply(gateway, call, self.content_length or 0)
        try:
            await super().write_eof(data)
        finally:
            release_body(gateway, call)
