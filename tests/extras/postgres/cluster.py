"""PostgreSQL servers of the tests' own, PgBouncer in front of one, and how both run: their user and folders."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

from tests.support.memory import MEMORY
from tests.support.process import free_port

USERS: Final = ("postgres", "nobody")
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.01


@functools.cache
def find_user() -> pwd.struct_passwd | None:
    """Find who runs the servers: the first of USERS if these tests run as root, else who runs them."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


def describe(folder: Path) -> dict[str, Any]:
    """Give subprocess's arguments: the servers' user, a place it may be in, and no PG* variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    arguments: dict[str, Any] = {"cwd": folder, "env": kept | {"LC_ALL": "C"}}
    user = find_user()
    if user is not None:
        arguments |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    return arguments


def make_folder(name: str, *, durable: bool = True) -> Path:
    """Make a folder that the servers' user owns. Its path is short, as those of UNIX sockets are.

    Without `durable` it is in memory, where there is room.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"gateway-{name}-", dir=None if durable else MEMORY))
    user = find_user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    return folder


def run(command: Sequence[str | Path], folder: Path) -> None:
    """Run a command to its end."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **describe(folder))
    assert done.returncode == 0, f"{command[0]}: {done.stderr}"


@dataclass(slots=True)
class Daemon:
    """A server and its folder, in which `log` is its standard error."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    _alive: int = -1
    """A pipe whose other end the server and all its children hold: it ends when they are gone."""

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self, command: Sequence[str | Path], is_ready: Callable[[], bool]) -> None:
        """Start the server and return once it is ready; end it if it never is."""
        assert self.process is None, "it runs already"
        self._alive, held = os.pipe()
        try:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(held,),
                    **describe(self.folder),
                )
        finally:
            os.close(held)
        try:
            self._wait_until(is_ready, self.process)
        except BaseException:
            self.end(signal.SIGQUIT)
            raise

    def _wait_until(self, is_ready: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            assert process.poll() is None, f"it did not start:\n{self.log[-4000:]}"
            assert time.monotonic() < deadline, f"it is not ready:\n{self.log[-4000:]}"
            time.sleep(POLL_SECONDS)

    def end(self, number: signal.Signals) -> None:
        """Send a signal that ends the server; return once its last child has gone."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(number)
        ended, _, _ = select.select([self._alive], [], [], STOP_SECONDS)
        if not ended:
            self.process.kill()
        self.process.wait()
        self.process = None
        os.close(self._alive)
        assert ended, f"it did not stop on {number.name}:\n{self.log[-4000:]}"

    def remove(self) -> None:
        """End the server, if it still runs, and remove its folder."""
        try:
            if self.process is not None:
                self.end(signal.SIGQUIT)
        finally:
            shutil.rmtree(self.folder)


DEBIAN: Final = Path("/usr/lib/postgresql")
NEEDED: Final = ("initdb", "postgres", "pg_isready")
SUPERUSER: Final = "postgres"
ROLE: Final = "gateway"

SIGNALS: Final = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
FORGETFUL: Final = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
"""Settings of a server without `durable`: it survives any end of its own, but not the machine's."""


def find_server() -> Path | None:
    """Find the folder of the newest server's programs, or None."""
    installed = [path for path in DEBIAN.glob("*/bin") if path.parent.name.isdecimal()]
    installed.sort(key=lambda path: int(path.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        installed.append(Path(on_path).resolve().parent)
    return next((one for one in installed if all((one / name).exists() for name in NEEDED)), None)


@dataclass(slots=True)
class Cluster:
    """A server with a data folder and a port that stay its own over stops and starts."""

    programs: Path
    daemon: Daemon
    durable: bool
    settings: dict[str, str | int]
    """Those of postgresql.conf; they are in force from the next `start` on."""
    port: int = field(default_factory=free_port)
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def folder(self) -> Path:
        """The folder of its UNIX socket."""
        return self.daemon.folder

    @property
    def log(self) -> str:
        return self.daemon.log

    def start(self) -> None:
        """Start the server and return once it accepts connections."""
        settings: dict[str, str | int] = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": str(self.folder),
            **({} if self.durable else FORGETFUL),
            **self.settings,
        }
        words = [f"--{name}={value}" for name, value in settings.items()]
        command = [str(self.programs / "postgres"), "-D", str(self.folder / "data"), *words]
        self.daemon.start(command, lambda: self.answers(self.port))

    def answers(self, port: int) -> bool:
        """Return whether it, or a pool in front of it, accepts connections on a port."""
        with contextlib.suppress(AssertionError):
            ask = self.programs / "pg_isready"
            run([ask, "-q", "-h", "127.0.0.1", "-p", str(port)], self.folder)
            return True
        return False

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it: `fast` ends connections and writes all out, `immediate` leaves a recovery to do."""
        self.daemon.end(SIGNALS[mode])

    def kill(self) -> None:
        """Kill the server as `kill -9` does; its children notice, and end."""
        self.daemon.end(signal.SIGKILL)

    def run_sql(self, statement: str, database: str = SUPERUSER) -> list[tuple[Any, ...]]:
        """Run a statement as the superuser; return its rows."""
        import psycopg  # it is an extra

        url = f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}"
        with psycopg.connect(url, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return [] if done.description is None else done.fetchall()

    def make_database(self) -> str:
        """Make a database that the role `gateway` owns; return that role's URL of it."""
        name = f"gateway_{next(self._numbers)}"
        self.run_sql(f"CREATE DATABASE {name} OWNER {ROLE}")
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run_sql(f"DROP DATABASE {name_of(url)} WITH (FORCE)")


def name_of(url: str) -> str:
    """Return the name of the database that a URL, or the name itself, is of."""
    return url.rpartition("/")[2]


@contextlib.contextmanager
def run_cluster(
    programs: Path, *, durable: bool = True, settings: Mapping[str, str | int] | None = None
) -> Iterator[Cluster]:
    """Run a new server in a folder that is removed at the end.

    Without `durable` it does not wait for the disk, which suits tests that never look at time. It is
    in memory then: on a disk, to make a database from another is eight times the work.
    """
    daemon = Daemon(make_folder("postgres", durable=durable))
    cluster = Cluster(programs, daemon, durable, dict(settings or {}))
    try:
        options = ("--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync", "-U", SUPERUSER)
        run([programs / "initdb", *options, "-D", daemon.folder / "data"], daemon.folder)
        cluster.start()
        cluster.run_sql(f"CREATE ROLE {ROLE} LOGIN")
        yield cluster
    finally:
        try:
            if daemon.process is None and (daemon.folder / "data" / "postmaster.pid").exists():
                cluster.start()  # it was killed, and its next start frees its shared memory
        finally:
            daemon.remove()


PLACES: Final = ("/usr/sbin", "/usr/local/sbin")


def find_bouncer() -> Path | None:
    """Find the program, or None. An ordinary user's PATH lacks the folders it is in."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *PLACES))
    found = shutil.which("pgbouncer", path=path)
    return None if found is None else Path(found)


@dataclass(slots=True)
class Bouncer:
    """A pool in front of a cluster, which lets in all roles of the tests without a password."""

    program: Path
    cluster: Cluster
    daemon: Daemon
    settings: dict[str, str | int]
    """Those of pgbouncer.ini; they are in force from the next `start` on."""
    port: int = field(default_factory=free_port)

    def url(self, database: str) -> str:
        """Return the role `gateway`'s URL of a database through the pool; take its name or URL."""
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/{name_of(database)}"

    def start(self) -> None:
        """Start the pool and return once it accepts connections."""
        folder = self.daemon.folder
        (folder / "users").write_text(f'"{ROLE}" ""\n"{SUPERUSER}" ""\n', encoding="utf-8")
        settings: dict[str, str | int] = {
            "listen_addr": "127.0.0.1",
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(folder / "users"),
            "admin_users": SUPERUSER,
            "pool_mode": "transaction",
            **self.settings,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        server = f"* = host=127.0.0.1 port={self.cluster.port}"
        text = "\n".join(("[databases]", server, "[pgbouncer]", *lines, ""))
        (folder / "pgbouncer.ini").write_text(text, encoding="utf-8")
        command = (self.program, folder / "pgbouncer.ini")
        self.daemon.start(command, lambda: self.cluster.answers(self.port))

    def stop(self) -> None:
        """Stop it at once; connections break."""
        self.daemon.end(signal.SIGTERM)


@contextlib.contextmanager
def run_bouncer(
    program: Path, cluster: Cluster, *, settings: Mapping[str, str | int] | None = None
) -> Iterator[Bouncer]:
    """Run a pool in front of a cluster."""
    daemon = Daemon(make_folder("pgbouncer"))
    bouncer = Bouncer(program, cluster, daemon, dict(settings or {}))
    try:
        bouncer.start()
        yield bouncer
    finally:
        if daemon.process is not None:
            bouncer.stop()
        daemon.remove()
