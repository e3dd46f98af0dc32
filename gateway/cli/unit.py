"""`unit`: describe this installation, and tell the operator what to do with the units."""

from __future__ import annotations

import pwd
import shlex
import socket
import sys
from pathlib import Path
from typing import Final

import gateway
from gateway.config import Config, Server
from gateway.ledger import Refused
from gateway.server import NAME, Installation

UNIT_FOLDER: Final = "/etc/systemd/system"
PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def find_installation(config: Config) -> Installation:
    """Return the paths of this installation: interpreter, package, configuration, database."""
    path = config.path.absolute()
    package = Path(gateway.__file__).absolute().parents[1]
    return Installation(
        python=Path(sys.executable),
        environment=Path(sys.prefix),
        package=package / "gateway",
        config=path,
        folder=path.parent if package.name in PACKAGE_FOLDERS else package,
        database=config.storage.path,
        owner=_find_owner(config.storage.path.parent),
    )


def _find_owner(folder: Path) -> str:
    """Return the user who owns a folder; "" for root, an unknown user or a missing folder."""
    try:
        owner = folder.stat().st_uid
        return pwd.getpwuid(owner).pw_name if owner else ""
    except (FileNotFoundError, KeyError):
        return ""


def find_addresses(server: Server) -> list[tuple[str, int]]:
    """Return the numeric addresses to listen on, for a socket unit. Raises Refused."""
    if not server.port:
        raise Refused("A socket unit needs a fixed port. Set [server] port in gateway.toml.")
    try:
        found = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(
            f"The host {server.host} cannot be resolved: {error.strerror}. Set [server] host in"
            " gateway.toml to an address of this machine."
        ) from error
    return list(dict.fromkeys((str(address[0]), server.port) for *_, address in found))


def explain(place: Installation) -> str:
    """Return the commands that install and start the units."""
    command = shlex.join([str(place.python), "-m", "gateway", "--config", str(place.config)])
    lines = [
        "To install both units and start them, now and at every boot:",
        f"  cd {shlex.quote(str(place.folder))}",
        f"  {command} unit | sudo tee {UNIT_FOLDER}/{NAME}.service",
        f"  {command} unit --socket | sudo tee {UNIT_FOLDER}/{NAME}.socket",
        "  sudo systemctl daemon-reload",
        f"  sudo systemctl enable --now {NAME}.socket {NAME}.service",
        f"To restart without refusing requests: sudo systemctl restart {NAME}.service",
        f"To stop for good: sudo systemctl disable --now {NAME}.socket {NAME}.service",
    ]
    return "\n".join(lines)


def warn(service: str, place: Installation) -> str | None:
    """Return a note on a user the operator may not have intended; None if there is nothing to note."""
    if "\nDynamicUser=yes\n" not in service:
        return None
    return (
        f"Note: systemd creates {place.database.parent} and a user for it when the service starts. Run"
        " the other commands with sudo after that."
    )
