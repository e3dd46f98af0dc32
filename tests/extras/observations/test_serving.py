"""Counts of requests to a real gateway, and what their callers can read of refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gateway.base.errors import BadRequest, GatewayError, InternalError, InvalidKey, UpstreamError
from gateway.extras.observations import serving
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import RefusedView, UpstreamView
from gateway.ledger.opening import open_books
from tests.api.test_lookups import ISO
from tests.server.test_access_log import KEY
from tests.support.chat import check_error, say
from tests.support.config import UPSTREAM_NAME
from tests.support.records import make_call
from tests.support.replies import completion, error_reply, json_reply
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage
from tests.support.waiting import until


def test_the_latest_failures_are_kept() -> None:
    latest, most = serving.LatestFailures(maxlen=serving.MAX_FAILURES), serving.MAX_FAILURES
    for status in (200, 204, 304, 400, 404, 429, 499):
        latest.note(make_call(request_id="req"), status)
    assert not latest
    for number in range(most + 5):
        latest.note(make_call(request_id=f"req_{number}"), 500)
    assert [one.request_id for one in latest] == [f"req_{number}" for number in range(5, most + 5)]


async def test_the_calls_of_providers_are_counted(stage: Stage, spare: Caller) -> None:
    """Replies have a time; rejections are calls, but no failures; what was admitted is no refusal."""
    pair, whole = stage.fresh("pair"), stage.fresh("brisk")
    stage.beta.always(json_reply(completion()))
    stage.alpha.play(json_reply(completion()), error_reply(400), error_reply(500))
    for model in (whole, whole, pair):
        await stage.chat(say(model), key=spare.key)
    whole, pair = (one.replace("/", "-") for one in (whole, pair))
    with open_books(stage.books.path) as books:

        def find() -> dict[str, UpstreamView]:
            return {one.provider: one for one in ObservationBook(books).read_upstream()}

        await until(lambda: f"{pair}-beta" in find(), "the counts")
        seen = find()
        for name, calls, failures in (
            (f"{whole}-alpha", 2, 0), (f"{pair}-alpha", 1, 1), (f"{pair}-beta", 1, 0)
        ):  # fmt: skip
            assert (seen[name].today.calls, seen[name].today.failures) == (calls, failures)
            times = [
                (one.firsts, one.totals)
                for one in ObservationBook(books).read_latencies("route", 0, 10**6)
                if one.name == (name, UPSTREAM_NAME)
            ]
            assert sum(totals for _, totals in times) == calls - (name != f"{pair}-beta")
            assert sum(firsts for firsts, _ in times) == sum(totals for _, totals in times)
        kept = ObservationBook(books).read_refusals(books.accounts.find_id(spare.account), 0)
    assert kept == []


async def test_a_refused_request_is_told_to_its_key(stage: Stage, spare: Caller) -> None:
    refused = await stage.chat(say("no/such-model"), key=spare.key)
    assert refused.status == 400
    url = f"/v1/receipts/{refused.request_id}"

    def find() -> list[RefusedView]:
        with open_books(stage.gateway.database) as books:
            kept = ObservationBook(books).read_refused(None, 0, 100)
        return [one for one in kept if one.request_id == refused.request_id]

    await until(find, "the refusal, which is written some seconds later")
    told = (await stage.gateway.ask("GET", url, key=spare.key)).json
    assert ISO.fullmatch(told.pop("at"))
    assert told == {
        "request_id": refused.request_id,
        "state": "refused",
        "code": "model_not_found",
        "model": "no/such-model",
    }
    check_error(await stage.gateway.ask("GET", url, key=stage.key), 404, "unknown_url")


@each_row(
    ("error", "counted"),
    [(BadRequest("M"), 1), (InvalidKey("M"), 1), (InternalError(), 0), (UpstreamError("M"), 0)],
)
def test_faults_of_the_gateway_and_of_providers_are_no_refusals(
    error: GatewayError, counted: int
) -> None:
    told: list[tuple[object, ...]] = []
    observer: Any = SimpleNamespace(note_refusal=lambda *words, **_: told.append(words))
    call = make_call(gateway=SimpleNamespace(config=SimpleNamespace(models={})), key=KEY)
    serving._note_refusal(observer, call, error)
    assert len(told) == counted
