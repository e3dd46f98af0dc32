"""The verbs for keys."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from gateway.admin import budgets, keys, views
from gateway.cli.command import Command
from gateway.cli.tables import KEYS
from gateway.ledger import Allowance, KeyChanges, KeyTerms, KeyView, NewKey, TermChanges


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
        shared = options.budget if isinstance(options.budget, str) else None
        if shared is not None:
            budget = budgets.find_budget(books, shared, options.account)
            terms = replace(terms, budget_id=budget.id)
        own = options.budget if isinstance(options.budget, Allowance) else None
        _hand_out(command, keys.add_key(books, options.account, terms, own=own))


def key_edit(command: Command) -> None:
    options = vars(command.options)
    changes = cast(KeyChanges, read_term_changes(command))  # which may get further names
    if "name" in options:
        changes["name"] = options["name"] or ""
    if "cap" in options:
        changes["cap_nano"] = options["cap"]
    if "expires" in options:
        changes["expires_ms"] = options["expires"]
    budget: Allowance | str | None = options.get("budget")
    own = budget if isinstance(budget, Allowance) else None
    with command.forbid() as books:
        key_id = keys.find_key_id(books, options["key"])
        if isinstance(budget, str):
            account = books.keys.read(key_id).account
            changes["budget_id"] = budgets.find_budget(books, budget, account).id
        elif "budget" in options and budget is None:
            changes["budget_id"] = None
        key = keys.edit_key(books, key_id, changes, own=own)
    _tell_key(command, key, "changed")


def key_list(command: Command) -> None:
    with command.open_books() as books:
        command.show_list(books.keys.read_all(command.options.account), views.describe_key, KEYS)


def key_rotate(command: Command) -> None:
    options = command.options
    with command.forbid() as books:
        key_id = keys.find_key_id(books, options.key)
        _hand_out(command, keys.rotate_key(books, key_id, grace_seconds=options.grace))


def key_revoke(command: Command) -> None:
    with command.forbid() as books:
        key = books.keys.revoke(keys.find_key_id(books, command.options.key))
    _tell_key(command, key, "revoked")


def _tell_key(command: Command, key: KeyView, done: str) -> None:
    command.show(views.describe_key(key))
    command.say(f"Key {key.id} of account {key.account} is {done}.")


def _hand_out(command: Command, made: NewKey) -> None:
    """Print only the key to stdout.

    Its id is written to stderr first: if the key gets lost, it can be revoked.
    """
    command.say(f"Key {made.key.id} of account {made.key.account}, shown this once:")
    command.show({"secret": made.secret, **views.describe_key(made.key)}, made.secret)


def read_term_changes(command: Command) -> TermChanges:
    """Return the terms that an edit names; warn of models that the configuration lacks."""
    options = command.options
    warn_of_unknown_models(command)
    changes: TermChanges = {}
    if hasattr(options, "rpm"):
        changes["requests_per_minute"] = options.rpm
    if hasattr(options, "tpm"):
        changes["tokens_per_minute"] = options.tpm
    if hasattr(options, "concurrency"):
        changes["concurrency"] = options.concurrency
    if hasattr(options, "models"):
        changes["models"] = options.models
    return changes


def warn_of_unknown_models(command: Command) -> None:
    for model in getattr(command.options, "models", None) or ():
        if model not in command.config.models:
            command.say(f"Note: {command.config.path} has no model {model}. Check the spelling.")
