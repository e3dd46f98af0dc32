"""The exit codes of all commands. Each failure also has a message on stderr."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The result of a command."""

    OK = 0
    """The command did what it says."""
    FAILED = 1
    """The command was refused, its output could not be written, or prices drift from a list."""
    USAGE = 2
    """The arguments are wrong. argparse uses the same code."""
    AUDIT_MISMATCH = 3
    """The books do not add up."""
    NOT_FOUND = 5
    """The account, key, code, request, database or price list does not exist."""
    UNAVAILABLE = 69
    """The database is locked or unusable, or the address cannot be bound (EX_UNAVAILABLE)."""
    CONFIG = 78
    """The configuration is missing or invalid, or a price list is invalid (EX_CONFIG)."""
    INTERRUPTED = 130
    """128 + SIGINT, as shells report it."""
