"""Under systemd: notifications, passed sockets, and restarts without a failed request."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import httpx2
import openai
import pytest

from gateway.server.systemd import Manager, take_sockets
from tests.long.restarts import play_restarts
from tests.server.manager import Ear, Service, max_backlog, queueing, service
from tests.support.rows import each_row

# ---- the protocols -------------------------------------------------------------------------------


@each_row("pid", ["", "1", "x", "-1"])
def test_sockets_of_another_process_are_left_alone(pid: str) -> None:
    variables = {"LISTEN_PID": pid, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a", "PATH": "/bin"}
    assert take_sockets(variables) == ()
    assert variables == {"PATH": "/bin"}


async def test_what_is_told_arrives_as_lines() -> None:
    with Ear() as ear, ear.listening():
        Manager(ear.address).notify("READY=1", "STATUS=two\nlines")
        assert (await ear.wait_for("READY")).fields == {"READY": "1", "STATUS": "two lines"}


def test_nobody_to_tell_is_silence(caplog: pytest.LogCaptureFixture) -> None:
    Manager().notify("READY=1")
    assert caplog.text == ""


def test_telling_that_fails_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for address in ("@nobody-listens-here", f"{tmp_path}/none", "x" * 200):
        caplog.clear()
        Manager(address).notify("READY=1")
        assert "cannot send READY=1 to systemd" in caplog.text


def test_telling_one_who_does_not_read_ends(caplog: pytest.LogCaptureFixture) -> None:
    with Ear() as ear:
        while "timed out" not in caplog.text:
            Manager(ear.address).notify("WATCHDOG=1")


async def test_three_pings_are_told_in_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr("gateway.server.systemd.asyncio.sleep", sleep)
    with Ear() as ear:
        with pytest.raises(asyncio.CancelledError):
            await Manager(ear.address, 30.0).keep_alive()
        ear.read_all()
        assert [dict(one.fields) for one in ear.notices] == [{"WATCHDOG": "1"}] * 4
    assert slept == [10.0] * 4


# ---- a life --------------------------------------------------------------------------------------


async def ask_demo(one: Service, transport: httpx2.AsyncHTTPTransport | None = None) -> str | None:
    async with openai.AsyncOpenAI(
        base_url=one.gateway.base_url,
        api_key=one.caller.key,
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(transport=transport),
    ) as client:
        whole = await client.chat.completions.create(
            model="demo/0", messages=[{"role": "user", "content": "Hello there"}]
        )
    return whole.choices[0].message.content


async def test_a_life_on_passed_sockets_is_told_in_order(tmp_path: Path) -> None:
    """READY comes when requests are served, then pings, then STOPPING with the time it may take.

    All passed sockets are used, no others; their queue keeps its length, a path stays.
    """
    path, address = str(tmp_path / "s"), str(tmp_path / "n")
    with queueing() as tcp, queueing(path) as unix, queueing() as other:
        length = max_backlog(tcp)
        async with service(
            tmp_path, [tcp, unix, other], watchdog_seconds=0.15, ear_address=address
        ) as one:
            ready = await one.start_ready()
            assert one.ear.notices[0] is ready
            ports = [listening.getsockname()[1] for listening in (tcp, other)]
            first, last = (f"http://127.0.0.1:{port}" for port in ports)
            listed = f"listening on {first}, unix:{path}, {last}, models: 1"
            assert ready.fields["STATUS"] == listed
            text = await ask_demo(one)
            assert text
            assert await ask_demo(one, httpx2.AsyncHTTPTransport(uds=path)) == text
            assert max_backlog(tcp) == length
            for _ in range(2):
                await one.ear.wait_for("WATCHDOG", len(one.ear.notices))
            await one.end()
            (stopping,) = one.ear.find("STOPPING")
            assert stopping.fields == {
                "STOPPING": "1",
                "STATUS": "stopping: 0 requests in flight",
                "EXTEND_TIMEOUT_USEC": "17000000",
            }
            names = [next(iter(told.fields)) for told in one.ear.notices]
        assert names[0] == "READY"
        assert {*names} - {"READY", "STOPPING"} == {"WATCHDOG"}
        assert names.count("READY") == names.count("STOPPING") == 1
        assert Path(path).is_socket()  # noqa: ASYNC240 - a stat
        with socket.create_connection(tcp.getsockname(), 1):
            pass  # queued, not refused


@pytest.mark.slow
async def test_a_passed_socket_that_does_not_listen_is_refused(tmp_path: Path) -> None:
    with queueing() as listening:
        near = socket.create_connection(listening.getsockname(), 1)
        far, _ = listening.accept()
        with near, far, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            for wrong in (near, datagrams):
                folder = tmp_path / str(wrong.fileno())
                folder.mkdir()
                async with service(folder, [wrong]) as one:
                    one.start()
                    assert await one.wait_ended() == 69
                    assert (
                        "the passed descriptor 3 is not a listening stream socket"
                        in one.gateway.log
                    )
                    assert "Traceback" not in one.gateway.log


@pytest.mark.slow
async def test_restarts_are_invisible_to_the_sdk(tmp_path: Path) -> None:
    """No call is refused or fails, each is charged once. See `python -m tests.long restarts`."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    figures = await play_restarts(tmp_path, restarts=2, seed=seed, at_once=30)
    print(figures)
    figures.check()
    assert figures.restarts == 2
    assert figures.calls > 30
