"""Operators see that a key is not renewed: Health, and alerts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest

from gateway.base.turns import spawn
from gateway.extras.alerts.findings import find_key_problems
from gateway.extras.alerts.watch import Watch
from gateway.extras.renewal.keys import EARLY_SECONDS, Renewal
from tests.extras.alerts.receiver import Receiver, listen
from tests.extras.alerts.test_watch import arrive, write_alerts
from tests.extras.console.kit import API, use_console
from tests.extras.renewal.kit import Cloud, open_cloud
from tests.support.config import Places
from tests.support.served import OPERATOR
from tests.support.upstream import ScriptedUpstream


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listen() as receiver:
        yield receiver


@pytest.fixture
async def cloud(
    tmp_path: Path, alpha: ScriptedUpstream, places: Places, receiver: Receiver
) -> AsyncIterator[Cloud]:
    async with open_cloud(tmp_path, alpha, places, write_alerts(receiver)) as cloud:
        yield cloud


async def test_a_renewal_that_fails_is_on_health_and_told_until_it_works(
    cloud: Cloud, receiver: Receiver
) -> None:
    chore = spawn(Watch(cloud.served.gateway, look_seconds=0.05).run(), name="alerts")
    await cloud.complete()
    (cloud.served.folder / "token").unlink()
    await _hurry(cloud)
    (told,) = await arrive(receiver, "key_not_renewed")
    assert (told["state"], told["subject"]) == ("raised", "cloud")
    assert told["text"] == "A key of provider cloud was not renewed: the command exited with 1."
    await cloud.complete()  # the old one serves
    assert (await _read_health(cloud))["problem"] == "the command exited with 1"
    cloud.issue("second")
    await _hurry(cloud)
    _, told = await arrive(receiver, "key_not_renewed", count=2)
    assert (told["state"], told["text"]) == ("ended", "The key of provider cloud is renewed again.")
    shown = await _read_health(cloud)
    assert (shown["problem"], shown["last4"]) == (None, "cond")
    listed = (await use_console(cloud.served).get(f"{API}/providers", as_=OPERATOR)).json[
        "providers"
    ]
    assert [one["key_last4"] for one in listed if one["name"] == "cloud"] == [["cond"]]
    chore.cancel()


async def test_the_end_of_what_was_not_told_is_not_told(cloud: Cloud) -> None:
    await cloud.complete()
    routes = cloud.served.gateway.routes
    assert list(find_key_problems(routes, None, ())) == []
    cloud.key.note_failure("the command exited with 1", 5)
    (raised,) = find_key_problems(routes, "node", ())
    cloud.key.renew(cloud.valid)
    assert raised.subject == "cloud, node", "each process renews its own keys"
    assert list(find_key_problems(routes, "node", ())) == []
    (ended,) = find_key_problems(routes, "node", {raised.key})
    assert (ended.state, ended.key == raised.key) == ("ended", False)


async def _hurry(cloud: Cloud) -> None:
    """Let the key be renewed now."""
    renewal = cast("Renewal", cloud.key.renewing)
    renewal._began -= EARLY_SECONDS
    await renewal.replace(cloud.key.secret, lambda: False)


async def _read_health(cloud: Cloud) -> dict[str, object]:
    health = await use_console(cloud.served).get(f"{API}/health", as_=OPERATOR)
    (key,) = next(one["keys"] for one in health.json["providers"] if one["name"] == "cloud")
    assert isinstance(key, dict)
    return key
