"""The verb `completion`."""

from __future__ import annotations

from gateway.cli.command import Command
from gateway.cli.verbs import choice, verb
from gateway.config.load import load_defaults
from gateway.extras.reference.completion import SHELLS


@verb(
    "completion",
    "completion bash",
    "completion zsh",
    "completion fish > ~/.config/fish/completions/gateway.fish",
    choice("shell", tuple(SHELLS), "the shell"),
    json=False,
    load=load_defaults,
)
def complete(command: Command, shell: str) -> None:
    command.output.print(SHELLS[shell]())
