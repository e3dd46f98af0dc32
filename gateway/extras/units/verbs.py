"""`unit`: prints a unit of this installation; on stderr, how to install it. `health` is in its own module."""

from __future__ import annotations

import pwd
import shlex
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import gateway
from gateway.base.addresses import list_hosts
from gateway.cli.command import Command
from gateway.cli.verbs import flag, verb
from gateway.config.records import Config, Server
from gateway.extras.units import health, texts  # noqa: F401 - the verb of `health`
from gateway.ledger.records import Refused

UNIT_FOLDER: Final = "/etc/systemd/system"
USER_UNIT_FOLDER: Final = "~/.config/systemd/user"
QUADLET_FOLDER: Final = "~/.config/containers/systemd"
CONFIG_FOLDER: Final = Path("/etc/gateway")
"""The proposed folder of a configuration that no upgrade touches."""
PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


@verb(
    "unit",
    examples=(
        "unit > gateway.service",
        "unit --socket > gateway.socket",
        "unit --container > gateway.container",
    ),
    json=False,
    either=(
        flag("--socket", "print the socket unit, which queues callers while the service restarts"),
        flag("--container", "print the unit of a container, for Podman's Quadlet"),
    ),
)
def unit(command: Command, *, socket: bool, container: bool) -> None:
    place, server = find_installation(command.config), command.config.server
    if socket:
        command.output.print(texts.make_socket(find_addresses(server)))
        return
    if container:
        command.output.print(
            texts.make_container(place.config, server, has_database=place.database is not None)
        )
        command.say(explain_container(command.config))
        return
    service = texts.make_service(place, server)
    command.output.print(service)
    command.say(explain(place))
    for line in note(service, place):
        command.say(line)


def find_installation(config: Config) -> texts.Installation:
    """Return the paths of this installation: interpreter, package, configuration, database."""
    path = config.path.absolute()
    package = Path(gateway.__file__).absolute().parents[1]
    database = config.storage.path if config.storage.url is None else None
    return texts.Installation(
        python=Path(sys.executable),
        environment=Path(sys.prefix),
        package=package / "gateway",
        config=path,
        folder=path.parent if package.name in PACKAGE_FOLDERS else package,
        database=database,
        owner=_find_owner((database or path).parent),
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
        found = [
            address
            for host in list_hosts(server.host)
            for address in socket.getaddrinfo(host, server.port, type=socket.SOCK_STREAM)
        ]
    except OSError as error:
        raise Refused(
            f"The host {server.host} cannot be resolved: {error.strerror}. Set [server] host in"
            " gateway.toml to an address of this machine."
        ) from error
    return list(dict.fromkeys((str(address[0]), server.port) for *_, address in found))


def explain(place: texts.Installation) -> str:
    """Return the commands that install and start the units."""
    command = shlex.join([str(place.python), "-m", "gateway", "--config", str(place.config)])
    return f"""\
To install both units and start them, now and at every boot:
  cd {shlex.quote(str(place.folder))}
  {command} unit | sudo tee {UNIT_FOLDER}/{texts.NAME}.service
  {command} unit --socket | sudo tee {UNIT_FOLDER}/{texts.NAME}.socket
  sudo systemctl daemon-reload
  sudo systemctl enable --now {texts.NAME}.socket {texts.NAME}.service
To read gateway.toml again: sudo systemctl reload {texts.NAME}.service
To restart without refusing requests: sudo systemctl restart {texts.NAME}.service
To stop for good: sudo systemctl disable --now {texts.NAME}.socket {texts.NAME}.service"""


def explain_container(config: Config) -> str:
    """Return the commands that build the image and start the container, and what to set before."""
    path = shlex.quote(str(config.path.absolute()))
    command = f"{shlex.quote(sys.executable)} -m gateway --config {path} unit"
    text = f"""\
To run the container as your own user, now and at every boot, with Podman 4.5 or newer:
  podman build -t {texts.IMAGE} --build-arg COMMIT=$(git rev-parse HEAD) .
                                    # in the clone, with the Containerfile of deploy.md
  mkdir -p {QUADLET_FOLDER} {USER_UNIT_FOLDER}
  {command} --container > {QUADLET_FOLDER}/{texts.NAME}.container
  {command} --socket > {USER_UNIT_FOLDER}/{texts.NAME}.socket
  systemctl --user daemon-reload
  systemctl --user enable --now {texts.NAME}.socket
  systemctl --user start {texts.NAME}.service
  loginctl enable-linger            # it runs while you are not signed in
To read gateway.toml again: systemctl --user reload {texts.NAME}.service, if your editor writes into the
  file. The container keeps the one that it started with: if another replaced it, restart.
Commands: podman exec {texts.NAME} gateway --config {texts.CONTAINER_CONFIG} account list"""
    storage = config.storage
    if storage.url is None and not storage.path.is_relative_to(texts.CONTAINER_STATE):
        text += (
            f'\nNote: set [storage] path = "{texts.CONTAINER_STATE / storage.path.name}" in'
            f" {config.path}: only that folder is kept when the container ends."
        )
    return text


def note(service: str, place: texts.Installation) -> Iterator[str]:
    """Yield settings of the service that the operator may not have intended."""
    if place.config.resolve().with_name("pyproject.toml").exists():
        copy = CONFIG_FOLDER / place.config.name
        move = f", set [storage] path in it to {place.database}," if place.database else ""
        yield (
            f"Note: {place.config} comes with the program, and an upgrade would overwrite what you set"
            f" there. Serve from a copy: sudo install -D -m 0644 {shlex.quote(str(place.config))}"
            f" {copy}{move} and print the units again with --config {copy}."
        )
    if "\nDynamicUser=yes\n" not in service:
        return
    if place.database is None:
        yield (
            f"Note: systemd makes a user for the service, who has to be able to read {place.config}."
            ' Keep a password out of it: write url = "env:DATABASE_URL" there, and'
            f" DATABASE_URL=postgresql://... into {texts.find_variables(place)}, a file of root (mode 0600)."
            " The other commands need that variable too."
        )
    else:
        yield (
            f"Note: systemd creates {place.database.parent} and a user for it when the service"
            " starts. Run the other commands with sudo after that."
        )
