"""The verbs for the process: `serve` and `init`."""

from __future__ import annotations

import shlex
from pathlib import Path

import gateway
from gateway.base.process import PROGRAM
from gateway.cli import arguments as read
from gateway.cli.command import Command, write_new
from gateway.cli.verbs import DEFAULT_CONFIG, arg, verb
from gateway.config.load import load_config, load_defaults


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
