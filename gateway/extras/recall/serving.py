"""The paths of `/v1` that use, show and delete kept responses.

    POST    /v1/responses                     as the core serves it, with the whole conversation
    POST    /v1/responses/input_tokens        as `count_tokens` counts it, with the whole conversation
    POST    /v1/responses/compact             the whole conversation in a shorter form
    GET     /v1/responses/{id}                the response as its caller got it
    DELETE  /v1/responses/{id}
    GET     /v1/responses/{id}/input_items    the items before it

A request that refers to kept responses or items is written anew with their content, then read like any other:
limits of size, prices and providers apply to the whole conversation.
"""

from __future__ import annotations

import asyncio
import re
import resource
import sys
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web

from gateway.api.admission import admit
from gateway.api.bodies import PARSED_FACTOR, count_body, is_large, parse, read_body, run_large
from gateway.api.completions import send_reply, serve_completion
from gateway.api.front import KeyedCall
from gateway.api.paths import explain_path
from gateway.api.routes import Endpoint
from gateway.api.state import Gateway
from gateway.base import errors
from gateway.dialects.wire.records import CompletionRequest, Json
from gateway.extension import Started, find_formats
from gateway.extras.count_tokens.serving import (
    MAX_COUNT_BYTES,
    admit_count,
    count_request,
    count_tokens,
)
from gateway.extras.recall import texts
from gateway.extras.recall.compacting import compact_reply, find_users, write_asking
from gateway.extras.recall.settings import TABLE, Responses
from gateway.extras.recall.shelves import Kept, Shelves, Text
from gateway.extras.responses.caller import ID_PREFIX, ResponsesCaller
from gateway.extras.responses.checks import is_reference
from gateway.extras.responses.counts import COUNTER

NOT_FOUND: Final = "previous_response_not_found"
"""OpenAI's code, on which clients act."""
_ID: Final = re.compile(r"(?!.*sk-)[\w-]{1,100}")


@dataclass(frozen=True, slots=True)
class Whole:
    """A request with the whole conversation."""

    request: CompletionRequest
    inputs: list[Text | Json]
    before: int
    """The number of kept items before those that the caller sent."""
    previous: str | None
    is_kept: bool


@dataclass(slots=True, eq=False)
class Recall:
    """The memory of one process."""

    gateway: Gateway
    shelves: Shelves
    caller: ResponsesCaller = field(default_factory=lambda: ResponsesCaller(refers=True))
    _timer: asyncio.TimerHandle | None = None
    """Drops responses that are too old. It is set while any response is kept."""

    async def create(self, http: web.Request, call: KeyedCall) -> web.StreamResponse:
        """Serve a completion. It may refer to kept responses, and may be kept itself."""
        if not self.shelves.settings.is_on:
            return await serve_completion(http, call)
        whole = await self._read(call, await read_body(http, call))
        request, is_kept = whole.request, whole.is_kept
        if is_kept or whole.previous is not None:
            request.told = {"previous_response_id": whole.previous, "store": is_kept}
        if is_kept:  # the gateway's own id: a provider may use an id twice
            request.told["id"] = ID_PREFIX + call.request_id
        with texts.renumber(whole.before):
            completion = await admit(http, call, request)
        if is_kept:
            completion.keep = partial(self._keep, call, request, whole.inputs)
        return await send_reply(http, completion)

    async def count(self, http: web.Request, call: KeyedCall) -> web.StreamResponse:
        """Count the tokens of a request, which may refer to kept responses."""
        if not self.shelves.settings.is_on:
            return await count_tokens(COUNTER, http, call)
        with admit_count(call):
            data = await read_body(http, call, MAX_COUNT_BYTES)
            whole = await self._read(call, data, MAX_COUNT_BYTES)
            with texts.renumber(whole.before):
                return await count_request(COUNTER, http, call, whole.request)

    async def compact(self, http: web.Request, call: KeyedCall) -> web.StreamResponse:
        """Serve a conversation in a shorter form. It may refer to kept responses. The reply is not kept."""
        request, before = await self._read_asking(call, await read_body(http, call))
        with texts.renumber(before):
            completion = await admit(http, call, request)
        users, name = find_users(request.body["input"]), ID_PREFIX + call.request_id
        completion.edit = partial(compact_reply, users, name)
        return await send_reply(http, completion)

    async def _read_asking(self, call: KeyedCall, data: bytes) -> tuple[CompletionRequest, int]:
        """Read the request to compact a conversation. Return it with the number of kept items in it."""
        write = partial(write_asking, data)
        if is_large(len(data)):
            count_body(call, len(data))
            asking = await run_large(call, write)
        else:
            asking = write()
        if not self.shelves.settings.is_on:
            return await parse(call, call.dialect, asking), 0
        whole = await self._read(call, asking)
        return whole.request, whole.before

    async def _read(self, call: KeyedCall, data: bytes, max_bytes: int = sys.maxsize) -> Whole:
        """Read a request; write it anew if it refers to kept content. Raises as `read_body` and `parse`."""
        request = await parse(call, self.caller, data)
        body = request.body
        previous, is_kept = body.pop("previous_response_id", None), body.get("store") is not False
        if is_kept:
            body.pop("store", None)  # providers are not asked to store anything
        before, own = self._find_inputs(call, previous, texts.list_given(body["input"]))
        inputs = [*before, *own]
        if any(isinstance(one, Text) for one in inputs):
            with texts.renumber(len(before)):
                request = await self._read_full(call, body, inputs, max_bytes)
        return Whole(request, inputs, len(before), previous, is_kept)

    def _find_inputs(
        self, call: KeyedCall, previous: str | None, given: list[Json]
    ) -> tuple[list[Text], list[Text | Json]]:
        """Return the items of the continued conversation, and the caller's items with references resolved.

        Raises BadRequest for a response or an item that is not kept.
        """
        account, now = call.key.account.id, asyncio.get_running_loop().time()
        before: list[Text] = []
        if previous is not None:
            kept = self.shelves.find(account, previous, now)
            if kept is None:
                raise self._refuse("Previous response", previous, "previous_response_id")
            before = [*kept.inputs, *kept.outputs]
        inputs: list[Text | Json] = []
        for number, item in enumerate(given):
            if is_reference(item):
                found = self.shelves.find_item(account, item["id"], now)
                if found is None:
                    raise self._refuse("Item", item["id"], f"input[{number}]")
                inputs.append(found)
            else:
                inputs.append(item)
        return before, inputs

    def _refuse(self, what: str, name: str, param: str) -> errors.BadRequest:
        settings = self.shelves.settings
        shown = f" with id '{name}'" if _ID.fullmatch(name) else ""
        return errors.BadRequest(
            f"{what}{shown} not found. This gateway keeps what is not sent with 'store: false' in"
            f" the memory of one process: for {settings.keep_minutes} minutes, until it restarts, and at"
            f" most {settings.account_mb:g} MiB of an account. Send the whole conversation as 'input';"
            " with 'store: false' that is all it takes.",
            param=param,
            code=NOT_FOUND,
        )

    async def _read_full(
        self, call: KeyedCall, body: Json, inputs: list[Text | Json], max_bytes: int
    ) -> CompletionRequest:
        """Read a request with the whole conversation. Raises as `read_body` and `parse`."""
        kept_bytes = sum(len(one.data) for one in inputs if isinstance(one, Text))
        most = min(call.gateway.config.server.max_body_mb << 20, max_bytes)
        if kept_bytes > most:
            raise errors.BodyTooLarge(f"The whole conversation is larger than {most >> 20} MiB.")
        count_body(call, (1 + PARSED_FACTOR) * kept_bytes)

        def write() -> bytes:
            return texts.write_full(body, texts.make_texts(inputs))

        full = await run_large(call, write) if is_large(kept_bytes) else write()
        return await parse(call, self.caller, full)

    async def _keep(
        self, call: KeyedCall, request: CompletionRequest, inputs: list[Text | Json], last: bytes
    ) -> None:
        keep = partial(texts.maybe_keep, inputs, last)
        is_long = request.is_large or is_large(request.size + len(last))
        kept = await run_large(call, keep) if is_long else keep()
        if kept is not None and self.shelves.settings.is_on:
            self.shelves.keep(call.key.account.id, kept, asyncio.get_running_loop().time())
            self._set_timer()

    def _set_timer(self) -> None:
        end = self.shelves.next_end
        if self._timer is None and end is not None:
            self._timer = asyncio.get_running_loop().call_at(end, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.shelves.expire(asyncio.get_running_loop().time())
        self._set_timer()

    async def show(self, http: web.Request, call: KeyedCall) -> web.Response:
        if http.query.get("stream") == "true":
            raise errors.BadRequest(
                "A response that is kept is not streamed again. Leave 'stream' out.", param="stream"
            )
        return _reply(texts.write_response(self._find(http, call)))

    async def delete(self, http: web.Request, call: KeyedCall) -> web.Response:
        kept = self._find(http, call)
        self.shelves.drop(call.key.account.id, kept.id)
        return _reply(texts.write_deleted(kept.id))

    async def list_inputs(self, http: web.Request, call: KeyedCall) -> web.Response:
        kept, query = self._find(http, call), {name: http.query.getall(name) for name in http.query}
        size = sum(len(one.data) for one in kept.inputs)
        write = partial(texts.write_inputs, kept, query)
        return _reply(await run_large(call, write) if is_large(size) else write())

    def _find(self, http: web.Request, call: KeyedCall) -> Kept:
        """Find the response of a path. Raises NotFound."""
        settings = self.shelves.settings
        if not settings.is_on:
            raise errors.NotFound(explain_path(http.path))
        now = asyncio.get_running_loop().time()
        kept = self.shelves.find(call.key.account.id, http.match_info["response_id"], now)
        if kept is None:
            raise errors.NotFound(
                "Response not found: it was sent with 'store: false', belongs to another account, or"
                f" is not there any more. Responses are kept for {settings.keep_minutes} minutes in"
                f" the memory of one process, and at most {settings.account_mb:g} MiB of an account."
            )
        return kept

    def reconfigure(self) -> None:
        before, settings = self.shelves.settings, _find_settings(self.gateway)
        if settings != before:
            self.shelves.reconfigure(settings, asyncio.get_running_loop().time())
            self.close()
            self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def start(gateway: Gateway) -> Started:
    """Begin to keep responses beside a gateway."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))  # a core dump would copy them to a disk
    recall = Recall(gateway, Shelves(_find_settings(gateway)))
    callers = (find_formats().callers["responses"],)
    one = "/v1/responses/{response_id}"
    return Started(
        endpoints=(
            Endpoint("POST", "/v1/responses", "charged", recall.create, callers),
            # Replaces the endpoint of `count_tokens`: extras start in the order of their names.
            Endpoint("POST", f"/v1{COUNTER.path}", "free", recall.count, callers),
            Endpoint("POST", "/v1/responses/compact", "charged", recall.compact, callers),
            Endpoint("GET", one, "free", recall.show, callers),
            Endpoint("DELETE", one, "free", recall.delete, callers),
            Endpoint("GET", f"{one}/input_items", "free", recall.list_inputs, callers),
        ),
        reconfigure=recall.reconfigure,
        close=recall.close,
    )


def _find_settings(gateway: Gateway) -> Responses:
    settings = gateway.config.extras[TABLE]
    assert isinstance(settings, Responses)
    return settings


def _reply(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
