"""Fixtures of the black-box tests: one gateway a worker, scripted upstreams, seeded accounts.

Unit tests use none of this and start nothing.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import pkgutil
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from importlib import import_module
from pathlib import Path

import coverage
import pytest

import gateway as package

# To rewrite all asserts takes 12 CPU-seconds in each worker, and to compile the package half a second
# in each gateway that a test starts; so the bytecode is kept even where the environment forbids it.
sys.dont_write_bytecode = False
# argparse looks for files of translated messages a hundred times in each command.
os.environ["LANGUAGE"] = "C"
# Imports make a million objects that stay: to look through them again and again takes a second.
gc.disable()
pytest.register_assert_rewrite("tests.support", "tests.extras", "tests.ledger")

from tests.support import config  # noqa: E402 - after the rewriting is switched on
from tests.support import running as runs  # noqa: E402
from tests.support.books import Books  # noqa: E402
from tests.support.extras import find_modules  # noqa: E402
from tests.support.fuzz import ALL_EXAMPLES, SEED  # noqa: E402
from tests.support.memory import MEMORY  # noqa: E402
from tests.support.process import GatewayProcess  # noqa: E402
from tests.support.running import Launch, Running, start_newcomer  # noqa: E402
from tests.support.seed import SEEDS, Caller, Seed  # noqa: E402
from tests.support.stage import Stage  # noqa: E402
from tests.support.upstream import ScriptedUpstream, listen, port_of, serve_scripts  # noqa: E402

pytest_plugins = [one.__name__ for one in find_modules("fixtures").values()]

# Each commit to a database waits for the disk, and no test can tell whether it did.
if MEMORY is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Trace how the package is imported, but not how the tests and SDKs are.

    That would take 7 CPU-seconds more in each worker.
    """
    tracing = coverage.Coverage.current()
    if tracing is None:
        return (yield)
    for one in pkgutil.walk_packages(package.__path__, "gateway."):
        import_module(one.name)
    tracing.stop()
    try:
        return (yield)
    finally:
        tracing.start()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure, beside all examples, only what needs a server of PostgreSQL: to trace doubles the work.

    A plain run measures the rest.
    """
    if ALL_EXAMPLES:
        for item in items:
            if "postgres" not in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.no_cover)


def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(f"{SEED} {item.nodeid}")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def signals() -> Iterator[None]:
    """Let children get Ctrl-C and SIGHUP, which a background job and nohup ignore, and children inherit that."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    before = {one: signal.signal(one, handler) for one, handler in handlers.items()}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture(scope="session")
def listeners() -> Iterator[dict[str, socket.socket]]:
    """Sockets by place: two that upstreams serve, and two where nothing good happens."""
    with contextlib.ExitStack() as stack:
        sockets = {name: stack.enter_context(listen()) for name in ("alpha", "beta")}
        refused = stack.enter_context(socket.socket())
        refused.bind(("127.0.0.1", 0))  # bound, never listening
        yield sockets | {"refused": refused, "black-hole": _dig_black_hole(stack)}


def _dig_black_hole(stack: contextlib.ExitStack) -> socket.socket:
    """A listener whose queue is full: the kernel drops whoever would connect."""
    hole = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(4):
        filler = stack.enter_context(socket.socket())
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            filler.connect(hole.getsockname())
    return hole


@pytest.fixture(scope="session")
def places(listeners: dict[str, socket.socket]) -> config.Places:
    return config.make_places({name: port_of(one) for name, one in listeners.items()})


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, places: config.Places) -> Iterator[Running]:
    """The gateway that most tests use. Stopping it proves exit 0, no traceback and no secret."""
    folder = tmp_path_factory.mktemp("gateway")
    running = runs.start(folder, places, seeds=SEEDS, kinds=config.KINDS)
    yield running
    running.gateway.stop()


@pytest.fixture(scope="module")
def running(shared: Running) -> Iterator[Running]:
    """The shared gateway; after every module that used it the books are proved."""
    yield shared
    shared.prove_books()


@pytest.fixture
def gateway(running: Running) -> GatewayProcess:
    return running.gateway


@pytest.fixture
def callers(running: Running) -> dict[str, Caller]:
    return running.callers


@pytest.fixture
def key(callers: dict[str, Caller]) -> str:
    """The key of an account that never runs dry."""
    return callers["rich"].key


@pytest.fixture(scope="session")
def spare_numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def spare(running: Running, spare_numbers: Iterator[int]) -> Caller:
    """A caller that no other test uses, with a balance of 100."""
    return running.callers[f"spare-{next(spare_numbers)}"]


@pytest.fixture
def books(running: Running) -> Books:
    return running.books


@pytest.fixture
async def alpha(listeners: dict[str, socket.socket]) -> AsyncIterator[ScriptedUpstream]:
    """The upstream that most models lead to."""
    async with serve_scripts(listeners["alpha"]) as scripted:
        yield scripted


@pytest.fixture
async def beta(listeners: dict[str, socket.socket]) -> AsyncIterator[ScriptedUpstream]:
    """The upstream of second routes; elsewhere a witness that nothing went astray."""
    async with serve_scripts(listeners["beta"]) as scripted:
        yield scripted


@pytest.fixture
def launch(tmp_path: Path, places: config.Places) -> Iterator[Launch]:
    """Start a gateway with settings of its own; it is stopped, and proved, after the test."""
    started: list[Running] = []

    def start(
        *,
        seeds: tuple[Seed, ...] = (Seed("rich"),),
        kinds: dict[str, config.Kind] | None = None,
        **tables: str,
    ) -> Running:
        folder = tmp_path / f"gateway-{len(started)}"
        folder.mkdir()
        chosen = kinds or {"plain": config.Kind(("alpha",), 4)}
        one = runs.start(folder, places, seeds=seeds, kinds=chosen, **tables)
        started.append(one)
        return one

    yield start
    for one in started:
        one.prove_books()
        one.gateway.stop()


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway in an empty folder with the shipped gateway.toml."""
    gateway = start_newcomer(tmp_path)
    yield gateway
    gateway.stop()


@pytest.fixture
def stage(running: Running, alpha: ScriptedUpstream, beta: ScriptedUpstream) -> Stage:
    return Stage(running, alpha, beta)
