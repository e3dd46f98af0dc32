"""A PostgreSQL server of the tests' own, with databases as an operator makes them for the gateway."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final, Literal

from tests.support import daemons
from tests.support.daemons import Daemon
from tests.support.process import free_port

DEBIAN: Final = Path("/usr/lib/postgresql")
NEEDED: Final = ("initdb", "postgres", "pg_isready", "psql")
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
        """Where its UNIX socket is."""
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
            daemons.run([ask, "-q", "-h", "127.0.0.1", "-p", str(port)], self.folder)
            return True
        return False

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it: `fast` ends connections and writes all out, `immediate` leaves a recovery to do."""
        self.daemon.end(SIGNALS[mode])

    def kill(self) -> None:
        """Kill the server as `kill -9` does; its children notice, and end."""
        self.daemon.end(signal.SIGKILL)

    def run_sql(self, statements: str, database: str = SUPERUSER) -> str:
        """Run statements as the superuser; return the rows' columns as `psql -At` separates them."""
        place = ("-h", self.folder, "-p", str(self.port), "-U", SUPERUSER, "-d", database)
        options = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-")
        return daemons.run([self.programs / "psql", *options, *place], self.folder, text=statements)

    def make_database(self) -> str:
        """Make a database that the role `gateway` owns; return that role's URL of it."""
        name = f"gateway_{next(self._numbers)}"
        self.run_sql(f"CREATE DATABASE {name} OWNER {ROLE};")
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/{name}"

    def drop_database(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run_sql(f"DROP DATABASE {name_of(url)} WITH (FORCE);")


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
    daemon = Daemon(daemons.make_folder("postgres", durable=durable))
    cluster = Cluster(programs, daemon, durable, dict(settings or {}))
    try:
        options = ("--auth=trust", "-E", "UTF8", "--no-locale", "--no-sync", "-U", SUPERUSER)
        daemons.run([programs / "initdb", *options, "-D", daemon.folder / "data"], daemon.folder)
        cluster.start()
        cluster.run_sql(f"CREATE ROLE {ROLE} LOGIN;")
        yield cluster
    finally:
        try:
            if daemon.process is None and (daemon.folder / "data" / "postmaster.pid").exists():
                cluster.start()  # it was killed, and its next start frees its shared memory
        finally:
            daemon.remove()
