"""The verbs for keys."""

from __future__ import annotations

from gateway.admin import keys, views
from gateway.cli.command import Command
from gateway.cli.tables import KEYS
from gateway.ledger import KeyChanges, KeyTerms, KeyView, NewKey


def key_add(command: Command) -> None:
    options = command.options
    assert options.account is not None  # argparse requires it here
    warn_of_unknown_models(command)
    terms = KeyTerms(
        name=options.name or "",
        models=options.models,
        requests_per_minute=options.rpm,
        tokens_per_minute=options.tpm,
        concurrency=options.concurrency,
        cap_nano=options.cap,
        expires_ms=options.expires,
    )
    with command.open_books() as books:
        _hand_out(command, keys.add_key(books, options.account, terms))


def key_edit(command: Command) -> None:
    options = vars(command.options)
    warn_of_unknown_models(command)
    changes: KeyChanges = {}
    if "name" in options:
        changes["name"] = options["name"] or ""
    if "cap" in options:
        changes["cap_nano"] = options["cap"]
    if "expires" in options:
        changes["expires_ms"] = options["expires"]
    if "models" in options:
        changes["models"] = options["models"]
    with command.forbid() as books:
        _tell_key(command, keys.edit_key(books, options["id"], changes), "changed")


def key_list(command: Command) -> None:
    with command.open_books() as books:
        command.show_list(books.keys.read_all(command.options.account), views.describe_key, KEYS)


def key_rotate(command: Command) -> None:
    options = command.options
    with command.forbid() as books:
        _hand_out(command, keys.rotate_key(books, options.id, grace_seconds=options.grace))


def key_revoke(command: Command) -> None:
    with command.forbid() as books:
        _tell_key(command, books.keys.revoke(command.options.id), "revoked")


def _tell_key(command: Command, key: KeyView, done: str) -> None:
    command.show(views.describe_key(key))
    command.say(f"Key {key.id} of account {key.account} is {done}.")


def _hand_out(command: Command, made: NewKey) -> None:
    """Print only the key to stdout.

    Its id is written to stderr first: if the key gets lost, it can be revoked.
    """
    command.say(f"Key {made.key.id} of account {made.key.account}, shown this once:")
    command.show({"secret": made.secret, **views.describe_key(made.key)}, made.secret)


def warn_of_unknown_models(command: Command) -> None:
    for model in getattr(command.options, "models", None) or ():
        if model not in command.config.models:
            command.say(f"Note: {command.config.path} has no model {model}. Check the spelling.")
