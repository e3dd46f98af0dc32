"""PgBouncer in transaction mode: each transaction may be on another connection to the server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support import daemons
from tests.support.daemons import Daemon
from tests.support.postgres import ROLE, SUPERUSER, Cluster, name_of
from tests.support.process import free_port

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
    daemon = Daemon(daemons.make_folder("pgbouncer"))
    bouncer = Bouncer(program, cluster, daemon, dict(settings or {}))
    try:
        bouncer.start()
        yield bouncer
    finally:
        if daemon.process is not None:
            bouncer.stop()
        daemon.remove()
