"""Talk to systemd: passed sockets, states, the watchdog; and `unit`, the text of the units.

These are the protocols of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3). If something
else started the process, no socket is taken and nothing is reported. The variables are removed from
the environment, as they are not meant for child processes. The units' templates stand beside this
file.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import shlex
import socket
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.base.addresses import join_address
from gateway.base.process import ExitCode
from gateway.config.records import Server
from gateway.ledger.records import Refused

NAME: Final = "gateway"
STATE_ROOT: Final = Path("/var/lib")
GRACE_SECONDS: Final = 15
"""The longest that stopping takes beyond `drain_seconds`."""
MIN_STOP_SECONDS: Final = 90
"""The least time to stop, systemd's own default."""
PRIVILEGED_PORTS: Final = 1024
"""Ports below this need a capability."""
SOCKET_BACKLOG: Final = 4096
"""Connections that the kernel queues while the service restarts: some seconds of 1,000 each."""
MIB_BASE: Final = 512
"""Memory in MiB of the process and its caches: several times what it takes when idle."""
MIB_PER_REQUEST: Final = 0.75
"""The most memory of a request, in MiB: its caller does not read the reply."""
MIB_PER_BODY_MIB: Final = 2
"""Memory in MiB for each MiB of a body: its bytes and, while it is checked, its parsed values."""
MIB_STEP: Final = 256
"""The limit is rounded up to a multiple of this, so that small changes keep the unit."""

NO_RESTART: Final = f"{ExitCode.AUDIT_MISMATCH} {ExitCode.CONFIG}"

IMAGE: Final = f"localhost/{NAME}"
CONTAINER_CONFIG: Final = "/etc/gateway/gateway.toml"
"""The configuration within the container."""
CONTAINER_STATE: Final = Path("/var/lib/gateway")
"""The folder of the volume within the container."""
CONTAINER_USER: Final = 10001
"""The user within the container: nobody else has this number, and it is not root's."""

_ORDER: Final = f"After=network-online.target {NAME}.socket"
_ORDER_POSTGRES: Final = f"""\
# PostgreSQL, if it runs on this machine, has to stop last: charges may be under way.
{_ORDER} postgresql.service"""
_PORT: Final = """\
# The port needs this capability without the socket unit. It has no effect in a user
# namespace, so PrivateUsers= is not set.
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
AmbientCapabilities=CAP_NET_BIND_SERVICE"""
_NO_CAPABILITIES: Final = "CapabilityBoundingSet=\nPrivateUsers=yes"
_IN_VOLUME: Final = "# The image and the configuration are read-only; the volume has the database."
_ELSEWHERE: Final = f"""\
# The image and the configuration are read-only; the first start leaves a key in the volume.
Environment=STATE_DIRECTORY={CONTAINER_STATE}
# If [storage] url is "env:DATABASE_URL": podman secret create database_url FILE
#Secret=database_url,type=env,target=DATABASE_URL"""

HIDDEN: Final = (
    ("PrivateTmp", ("/tmp", "/var/tmp"), "yes", "no"),  # noqa: S108 - named, not used
    ("ProtectHome", ("/home", "/root", "/run/user"), "yes", "read-only"),
)
"""Setting, folders it hides, usual value, and the value if a needed path is in one of them."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The absolute paths of an installation."""

    python: Path
    environment: Path
    """The virtual environment."""
    package: Path
    """The folder of the package `gateway`."""
    config: Path
    folder: Path
    """The working directory, from which Python finds the package."""
    database: Path | None
    """None with a database of PostgreSQL, which may be on another machine."""
    owner: str
    """The user who owns the folder of the database, or of the configuration if there is none.

    "" means root, or that the folder does not exist.
    """


def make_service(place: Installation, server: Server) -> str:
    """Return the text of gateway.service. Raises Refused for a service that would run as root."""
    variables = find_variables(place)
    fixed = [str(one) for one in (place.package, place.environment, place.config)]
    command = (_quote(str(place.python)), "-m", "gateway")
    # systemd would replace `$NAME` by a variable (systemd.service(5), "Command lines").
    config = _quote(str(place.config)).replace("$", "$$")
    return _fill(
        "gateway.service",
        order=_ORDER if place.database else _ORDER_POSTGRES,
        serve=" ".join((*command, "serve", "--config", config)),
        reload=" ".join((*command, "reload", "--config", config)),
        folder=_escape(str(place.folder)),
        variables=_escape(str(variables)),
        credential=_escape(str(place.config.with_name("openai.key"))),
        stop_seconds=_find_stop_seconds(server),
        no_restart=NO_RESTART,
        memory_mib=_find_memory_mib(server),
        user="\n".join(_find_user(place)),
        fixed=" ".join(_quote(one) for one in (*fixed, f"-{variables}")),
        hidden="\n".join(
            f"{setting}={otherwise if _needs_any(place, folders) else usual}"
            for setting, folders, usual, otherwise in HIDDEN
        ),
        capabilities=_PORT if 0 < server.port < PRIVILEGED_PORTS else _NO_CAPABILITIES,
    )


def make_socket(addresses: Sequence[tuple[str, int]]) -> str:
    """Return the text of gateway.socket, which listens on these numeric addresses."""
    lines = [f"ListenStream={join_address(host, port)}" for host, port in addresses]
    if any(":" in host for host, _ in addresses):
        # Otherwise `[::]` takes IPv4 as well, and an
        # address of IPv4 with this port cannot be bound.
        lines.append("BindIPv6Only=ipv6-only")
    return _fill("gateway.socket", listen="\n".join(lines), backlog=SOCKET_BACKLOG)


def make_container(config: Path, server: Server, *, has_database: bool) -> str:
    """Return the text of gateway.container, a Quadlet unit for a user's own systemd.

    Its keys are those of podman-systemd.unit(5), Podman 4.5 or newer. `has_database`: whether the
    database is a file in the volume.
    """
    stop_seconds = _find_stop_seconds(server)
    return _fill(
        "gateway.container",
        image=IMAGE,
        config=CONTAINER_CONFIG,
        source=_escape(str(config)),
        state=CONTAINER_STATE,
        database=_IN_VOLUME if has_database else _ELSEWHERE,
        user=CONTAINER_USER,
        stop_seconds=stop_seconds,
        end_seconds=stop_seconds + GRACE_SECONDS,
        no_restart=NO_RESTART,
    )


def _fill(template: str, **values: object) -> str:
    """Return the text of a unit; its template is the file of that name beside this module."""
    text = Path(__file__).with_name(template).read_text(encoding="utf-8")
    return text.rstrip("\n").format_map(values)


def _find_stop_seconds(server: Server) -> int:
    return max(MIN_STOP_SECONDS, math.ceil(server.drain_seconds) + GRACE_SECONDS)


def _find_memory_mib(server: Server) -> int:
    mib = (
        MIB_BASE + MIB_PER_REQUEST * server.max_in_flight + MIB_PER_BODY_MIB * server.max_bodies_mb
    )
    return math.ceil(mib / MIB_STEP) * MIB_STEP


def _find_user(place: Installation) -> Iterator[str]:
    """Give the lines of the user, and of the folder that the service may write."""
    state = NAME if place.database is None else _find_state_folder(place.database)
    if place.database is not None and not place.owner and not state:
        folder = place.database.parent
        raise Refused(
            f"{folder} belongs to root, so the gateway would run as root. Give the folder to a user of"
            " its own (sudo useradd --system gateway; sudo chown -R gateway: "
            f"{shlex.quote(str(folder))}) or set [storage] path to {STATE_ROOT}/{NAME}/gateway.db."
            " Then print the unit again."
        )
    yield f"User={place.owner}" if place.owner else "DynamicUser=yes"
    if place.database is None:
        yield "# The first start leaves a key there; nothing else is kept outside PostgreSQL."
    if state:
        yield f"StateDirectory={_quote(state)}"
        yield "StateDirectoryMode=0700"
    elif place.database is not None:
        yield f"ReadWritePaths={_quote(str(place.database.parent))}"


def find_variables(place: Installation) -> Path:
    """Return the file of environment variables, which need not exist."""
    return place.config.with_suffix(".env")


def _find_state_folder(database: Path) -> str:
    """Return the database's folder relative to /var/lib, for StateDirectory=; "" if not below it."""
    if not database.is_relative_to(STATE_ROOT):
        return ""
    below = database.parent.relative_to(STATE_ROOT)
    return str(below) if below.parts else ""


def _needs_any(place: Installation, folders: Iterable[str]) -> bool:
    needed = (
        *(place.python, place.environment, place.package),
        *(place.config, place.folder, place.database),
    )
    return any(path and path.is_relative_to(folder) for path in needed for folder in folders)


def _quote(word: str) -> str:
    """Escape one word of a list, and quote it if necessary."""
    escaped = _escape(word.replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{escaped}"' if set(word) & set(" \t\"'\\;") else escaped


def _escape(value: str) -> str:
    """Escape a whole value: systemd replaces nothing in it but specifiers."""
    return value.replace("%", "%%")


log = logging.getLogger("gateway.systemd")

FIRST_DESCRIPTOR: Final = 3
"""The first descriptor that is passed: SD_LISTEN_FDS_START of sd_listen_fds(3)."""
FAMILIES: Final = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)
SEND_SECONDS: Final = 0.1
"""How long sending may block: the queue is full only if systemd itself hangs."""
PINGS_PER_INTERVAL: Final = 3
"""Pings per watchdog interval: systemd recommends two, and a busy loop may miss one of three."""


class BadSocket(Exception):
    """A passed descriptor is not a listening stream socket."""


@dataclass(frozen=True, slots=True)
class Manager:
    """The service manager that started this process, if there is one."""

    address: str = ""
    """The address of its notification socket; "" if there is none."""
    watchdog_seconds: float | None = None
    """The watchdog's time-out: systemd kills the process if there is no ping for so long."""

    def notify(self, *states: str) -> None:
        """Send states such as `READY=1`. A failure is logged and does not stop the server."""
        if not self.address:
            return
        # A line break would begin another assignment (sd_notify(3)).
        message = "\n".join(state.replace("\n", " ") for state in states)
        address = self.address
        if address.startswith("@"):  # an abstract socket address
            address = "\0" + address[1:]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(SEND_SECONDS)
                out.sendto(message.encode(), address)
        except OSError as error:
            log.warning("cannot send %s to systemd: %s", states[0], error)

    async def keep_alive(self) -> None:
        """Ping the watchdog three times per interval, until cancelled.

        This has to be a task, not a thread: if the event loop hangs, the pings must stop.
        """
        if self.watchdog_seconds is None:
            return
        while True:
            self.notify("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / PINGS_PER_INTERVAL)


def take_manager(environ: MutableMapping[str, str]) -> Manager:
    """Read the manager's variables and remove them from `environ`."""
    address = environ.pop("NOTIFY_SOCKET", "")
    pid, interval = environ.pop("WATCHDOG_PID", ""), environ.pop("WATCHDOG_USEC", "")
    # WATCHDOG_PID may be unset; of another process it is not meant (sd_watchdog_enabled(3)).
    is_meant = pid in {"", str(os.getpid())} and interval.isdecimal() and int(interval) > 0
    return Manager(address, int(interval) / 1e6 if is_meant else None)


def take_sockets(environ: MutableMapping[str, str]) -> tuple[socket.socket, ...]:
    """Take the listening stream sockets that were passed. Raises BadSocket."""
    taken = {name: environ.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES")}
    # A parent may have left its own variables in the environment (sd_listen_fds(3)).
    is_meant = taken["PID"] == str(os.getpid()) and taken["FDS"].isdecimal()
    count = int(taken["FDS"]) if is_meant else 0
    return tuple(_take_socket(FIRST_DESCRIPTOR + number) for number in range(count))


def _take_socket(descriptor: int) -> socket.socket:
    try:
        os.set_inheritable(descriptor, False)  # the operator's commands must not keep it open
        passed = socket.socket(fileno=descriptor)
        listens = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise BadSocket(
            f"the passed descriptor {descriptor} cannot be used: {error.strerror}"
        ) from error
    if passed.family not in FAMILIES or passed.type != socket.SOCK_STREAM or not listens:
        passed.detach()  # leave it open: something else may own it
        raise BadSocket(
            f"the passed descriptor {descriptor} is not a listening stream socket; "
            "set ListenStream= in the socket unit, and do not set Accept=yes"
        )
    return passed
