"""The verbs for the process: `serve`, `init`, `reload`, `health`, and `unit`, for systemd."""

from __future__ import annotations

import pwd
import re
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

import gateway
from gateway.admin import asking
from gateway.admin.fields import describe
from gateway.base.addresses import join_address, list_hosts, list_reachable
from gateway.base.process import PROGRAM, ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command, write_new
from gateway.cli.verbs import DEFAULT_CONFIG, arg, flag, verb
from gateway.config.load import load_config, load_defaults, load_server, load_storage
from gateway.config.records import Config, Server
from gateway.ledger.opening import find_server
from gateway.ledger.records import Refused
from gateway.server import units


@verb("serve", "serve", "serve --config /etc/gateway.toml", json=False, load=load_config)
def serve(command: Command) -> int:
    # Here, as no other verb needs the web server.
    from gateway.server import run_server

    return run_server(command.config)


@verb(
    "init",
    "init",
    "init /etc/gateway/gateway.toml",
    arg("file", read.new_file, "the new file; must not exist (default: as --config)", nargs="?"),
    load=load_defaults,
)
def init(command: Command, file: Path | None) -> None:
    target = file or command.config.path
    shipped = Path(gateway.__file__).with_name("gateway.toml").read_bytes()
    write_new("init", target, shipped)
    command.show({"file": str(target)})
    is_default = target.absolute() == Path(DEFAULT_CONFIG).absolute()
    program = PROGRAM if is_default else f"{PROGRAM} --config {shlex.quote(str(target))}"
    command.say(
        f"{target} is written. Its providers are on as soon as the environment variables that it"
        f" names are set, such as OPENAI_API_KEY. Next:\n"
        f"  {program} check    # says what is set\n"
        f"  {program}          # serves; the first start shows what opens its accounts"
    )


@verb("reload", "reload", "reload --config /etc/gateway.toml --json", load=load_storage)
def reload(command: Command) -> int:
    location = command.config.storage.location
    books = command.open_books()  # first: it says so if the files belong to another user
    pid = find_server(location)
    if pid is None:
        command.say(
            f"No gateway serves from {location} on this machine. If [storage] has changed,"
            " restart the gateway: it goes on with the old one."
        )
        return ExitCode.UNAVAILABLE
    try:
        answer = asking.ask(books, pid)
    except PermissionError:
        command.say(f"The gateway (process {pid}) belongs to another user. Use sudo.")
        return ExitCode.UNAVAILABLE
    if answer is None:
        command.say(
            f"The gateway (process {pid}) was asked, but did not answer within"
            f" {asking.WAIT_SECONDS:.0f} s. Its log says more."
        )
        return ExitCode.UNAVAILABLE
    command.show(describe(answer, "ok", "at_ms", "words"))
    command.say(answer.words if answer.ok else f"Refused, nothing changed: {answer.words}")
    # The code that a start with the same file would have.
    return ExitCode.OK if answer.ok else ExitCode.CONFIG


ASK_SECONDS: Final = 5.0
"""Seconds for the answer of a gateway that is asked for its health: it takes milliseconds, so one that takes
longer hangs."""
_STATUS: Final = re.compile(r"HTTP/1\.[01] ([0-9]{3}) ")
_QUESTION: Final = b"GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n"


@verb("health", "health", "health --json", load=load_server)
def health(command: Command) -> int:
    server = command.config.server
    if not server.port:
        raise Refused("A gateway at any free port cannot be asked. Set [server] port.")
    status, words = ask_readiness(list_reachable(server.host), server.port)
    is_ready = status == HTTPStatus.OK
    command.show({"ready": is_ready, "words": words}, words if is_ready else "")
    if not is_ready:
        command.say(f"Not ready: {words}.")
    return ExitCode.OK if is_ready else ExitCode.FAILED


def ask_readiness(hosts: Sequence[str], port: int) -> tuple[int, str]:
    """Return the status and the words of the first host that answers; 0 and why if none does."""
    told = ""
    for host in hosts:
        address = join_address(host, port)
        try:
            with socket.create_connection((host, port), ASK_SECONDS) as asked:
                asked.sendall(_QUESTION)
                answer = b"".join(iter(partial(asked.recv, 1 << 16), b""))
        except OSError as error:
            told = told or f"nothing answers at {address} ({error.strerror or error})"
            continue
        head, _, body = answer.decode("latin-1").partition("\r\n\r\n")
        if found := _STATUS.match(head):
            return int(found[1]), " ".join(body.split())
        told = told or f"what answers at {address} is no gateway"
    return 0, told


UNIT_FOLDER: Final = "/etc/systemd/system"
USER_UNIT_FOLDER: Final = "~/.config/systemd/user"
QUADLET_FOLDER: Final = "~/.config/containers/systemd"
CONFIG_FOLDER: Final = Path("/etc/gateway")
"""The proposed folder of a configuration that no upgrade touches."""
PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


@verb(
    "unit",
    "unit > gateway.service",
    "unit --socket > gateway.socket",
    "unit --container > gateway.container",
    json=False,
    either=(
        flag("--socket", "print the socket unit, which queues callers while the service restarts"),
        flag("--container", "print the unit of a container, for Podman's Quadlet"),
    ),
)
def unit(command: Command, *, socket: bool, container: bool) -> None:
    place, server = find_installation(command.config), command.config.server
    if socket:
        command.output.print(units.make_socket(find_addresses(server)))
        return
    if container:
        command.output.print(
            units.make_container(place.config, server, has_database=place.database is not None)
        )
        command.say(explain_container(command.config))
        return
    service = units.make_service(place, server)
    command.output.print(service)
    command.say(explain(place))
    for line in note(service, place):
        command.say(line)


def find_installation(config: Config) -> units.Installation:
    """Return the paths of this installation: interpreter, package, configuration, database."""
    path = config.path.absolute()
    package = Path(gateway.__file__).absolute().parents[1]
    database = config.storage.path if config.storage.url is None else None
    return units.Installation(
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


def explain(place: units.Installation) -> str:
    """Return the commands that install and start the units."""
    command = shlex.join([str(place.python), "-m", "gateway", "--config", str(place.config)])
    return f"""\
To install both units and start them, now and at every boot:
  cd {shlex.quote(str(place.folder))}
  {command} unit | sudo tee {UNIT_FOLDER}/{units.NAME}.service
  {command} unit --socket | sudo tee {UNIT_FOLDER}/{units.NAME}.socket
  sudo systemctl daemon-reload
  sudo systemctl enable --now {units.NAME}.socket {units.NAME}.service
To read gateway.toml again: sudo systemctl reload {units.NAME}.service
To restart without refusing requests: sudo systemctl restart {units.NAME}.service
To stop for good: sudo systemctl disable --now {units.NAME}.socket {units.NAME}.service"""


def explain_container(config: Config) -> str:
    """Return the commands that build the image and start the container, and what to set before."""
    path = shlex.quote(str(config.path.absolute()))
    command = f"{shlex.quote(sys.executable)} -m gateway --config {path} unit"
    text = f"""\
To run the container as your own user, now and at every boot, with Podman 4.5 or newer:
  podman build -t {units.IMAGE} --build-arg COMMIT=$(git rev-parse HEAD) .
                                    # in the clone, with the Containerfile of deploy.md
  mkdir -p {QUADLET_FOLDER} {USER_UNIT_FOLDER}
  {command} --container > {QUADLET_FOLDER}/{units.NAME}.container
  {command} --socket > {USER_UNIT_FOLDER}/{units.NAME}.socket
  systemctl --user daemon-reload
  systemctl --user enable --now {units.NAME}.socket
  systemctl --user start {units.NAME}.service
  loginctl enable-linger            # it runs while you are not signed in
To read gateway.toml again: systemctl --user reload {units.NAME}.service, if your editor writes into the
  file. The container keeps the one that it started with: if another replaced it, restart.
Commands: podman exec {units.NAME} gateway --config {units.CONTAINER_CONFIG} account list"""
    storage = config.storage
    if storage.url is None and not storage.path.is_relative_to(units.CONTAINER_STATE):
        text += (
            f'\nNote: set [storage] path = "{units.CONTAINER_STATE / storage.path.name}" in'
            f" {config.path}: only that folder is kept when the container ends."
        )
    return text


def note(service: str, place: units.Installation) -> Iterator[str]:
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
            f" DATABASE_URL=postgresql://... into {units.find_variables(place)}, a file of root (mode 0600)."
            " The other commands need that variable too."
        )
    else:
        yield (
            f"Note: systemd creates {place.database.parent} and a user for it when the service"
            " starts. Run the other commands with sudo after that."
        )
