"""`unit`: what this installation is, and what to do with the files that are printed."""

from __future__ import annotations

import pwd
import shlex
import socket
import sys
from pathlib import Path
from typing import Final

import gateway
from gateway.accounts import Refused
from gateway.config import Config, Server
from gateway.unit import NAME, Installation

UNIT_FOLDER: Final = "/etc/systemd/system"
PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def find_installation(config: Config) -> Installation:
    """This one: its interpreter, its package, its database."""
    path = config.path.absolute()
    package = Path(gateway.__file__).absolute().parents[1]
    return Installation(
        python=Path(sys.executable),
        config=path,
        folder=path.parent if package.name in PACKAGE_FOLDERS else package,
        database=config.storage.path,
        owner=_find_owner(config.storage.path.parent),
    )


def _find_owner(folder: Path) -> str:
    """Whose the folder is; "" when it is root's, nobody's or not there."""
    try:
        owner = folder.stat().st_uid
        return pwd.getpwuid(owner).pw_name if owner else ""
    except (FileNotFoundError, KeyError):
        return ""


def find_addresses(server: Server) -> list[tuple[str, int]]:
    """What the gateway would listen on, in numbers, as a socket unit wants it. Raises Refused."""
    if not server.port:
        raise Refused("A socket unit needs a port: set [server] port in gateway.toml.")
    try:
        found = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(f"The host {server.host} cannot be resolved: {error.strerror}.") from error
    return list(dict.fromkeys((str(address[0]), server.port) for *_, address in found))


def explain(place: Installation) -> str:
    """Where the files go, and which commands follow."""
    command = shlex.join([str(place.python), "-m", "gateway", "--config", str(place.config)])
    lines = [
        "Put both units in place and start them, now and whenever the machine starts:",
        f"  cd {shlex.quote(str(place.folder))}",
        f"  {command} unit | sudo tee {UNIT_FOLDER}/{NAME}.service",
        f"  {command} unit --socket | sudo tee {UNIT_FOLDER}/{NAME}.socket",
        "  sudo systemctl daemon-reload",
        f"  sudo systemctl enable --now {NAME}.socket {NAME}.service",
        f"Restart, refusing nobody: sudo systemctl restart {NAME}.service",
        f"Stop for good:            sudo systemctl disable --now {NAME}.socket {NAME}.service",
    ]
    return "\n".join(lines)


def warn(service: str, place: Installation) -> str | None:
    """What an operator may not have wanted."""
    folder = place.database.parent
    if "\nUser=root\n" in service:
        return (
            f"Note: {folder} belongs to root, and so the gateway would run as root. Give the folder"
            " to a user of its own (sudo useradd --system gateway; sudo chown -R gateway: "
            f"{shlex.quote(str(folder))}), or set [storage] path to /var/lib/gateway/gateway.db;"
            " then print the unit again."
        )
    if "\nDynamicUser=yes\n" in service:
        return (
            f"Note: {folder} is made by systemd for a user that it makes up; run the other commands"
            " with sudo once the service has started."
        )
    return None
