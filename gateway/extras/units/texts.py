"""Write the units of an installation from the templates beside this file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.base.addresses import join_address
from gateway.base.process import ExitCode
from gateway.config.records import Server
from gateway.ledger.records import Refused
from gateway.server.systemd import GRACE_SECONDS, SOCKET_BACKLOG

NAME: Final = "gateway"
STATE_ROOT: Final = Path("/var/lib")
MIN_STOP_SECONDS: Final = 90
"""The least time to stop, systemd's own default."""
PRIVILEGED_PORTS: Final = 1024
"""Ports below this need a capability, as Linux lets only root bind them."""
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
    """Yield the lines on the user, and on the folder that the service may write to."""
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
