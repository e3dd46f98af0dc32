"""The operator's verbs for keys."""

from __future__ import annotations

from gateway import accounts
from gateway.cli_tables import table_keys
from gateway.cli_verbs import OK, Call
from gateway.times import unix_ms
from gateway.views import describe_key


def key_add(call: Call) -> int:
    options = call.options
    _warn_of_unknown_models(call)
    with call.open_books() as books:
        made = accounts.add_key(
            books,
            options.account,
            name=options.name or "",
            expires_ms=options.expires,
            models=options.models,
            requests_per_minute=options.rpm,
            tokens_per_minute=options.tpm,
            concurrency=options.concurrency,
            cap_nano=options.cap,
        )
    return _hand_out(call, made)


def key_edit(call: Call) -> int:
    options = vars(call.options)
    _warn_of_unknown_models(call)
    changes: accounts.KeyChanges = {}
    if "name" in options:
        changes["name"] = options["name"] or ""
    if "cap" in options:
        changes["cap_nano"] = options["cap"]
    if "expires" in options:
        changes["expires_ms"] = options["expires"]
    if "models" in options:
        changes["models"] = options["models"]
    with call.open_books() as books:
        key = accounts.edit_key(books, options["id"], changes)
    if call.options.json:
        call.console.print_json(describe_key(key))
    call.console.say(f"Key {key.id} of account {key.account} is changed.")
    return OK


def key_list(call: Call) -> int:
    with call.open_books() as books:
        found = accounts.list_keys(books, call.options.account)
    if call.options.json:
        call.console.print_json([describe_key(key) for key in found])
    else:
        call.console.print(table_keys(found, call.currency, unix_ms()))
    return OK


def key_rotate(call: Call) -> int:
    with call.open_books() as books:
        made = accounts.rotate_key(books, call.options.id, grace_seconds=call.options.grace)
    return _hand_out(call, made)


def key_revoke(call: Call) -> int:
    with call.open_books() as books:
        key = accounts.revoke_key(books, call.options.id)
    if call.options.json:
        call.console.print_json(describe_key(key))
    call.console.say(f"Key {key.id} of account {key.account} is revoked.")
    return OK


def _hand_out(call: Call, made: accounts.NewKey) -> int:
    """The key alone on stdout. Its id goes first: were the key lost on the way, it can be revoked."""
    call.console.say(f"Key {made.key.id} of account {made.key.account}, shown this once:")
    if call.options.json:
        call.console.print_json({"secret": made.secret, **describe_key(made.key)})
    else:
        call.console.print(made.secret)
    return OK


def _warn_of_unknown_models(call: Call) -> None:
    for model in getattr(call.options, "models", None) or ():
        if model not in call.config.models:
            call.console.say(f"Note: {call.config.path} has no model {model}.")
