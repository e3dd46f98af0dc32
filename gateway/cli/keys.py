"""The verbs for keys."""

from __future__ import annotations

from argparse import SUPPRESS
from typing import Final, Unpack

from gateway.admin import keys, views
from gateway.base.process import PROGRAM
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import MOMENTS, arg, edit, make_expiry, make_limits, verb
from gateway.ledger import budget_records, key_records
from gateway.ledger.sql.books import Books

_KEY: Final = arg(
    "key", "KEY", "the key's id, as `key list` shows it, or its name if no other has it"
)


OF_ACCOUNT: Final = (
    arg("account", "ACCOUNT", "list only those of this account", nargs="?", default=SUPPRESS),
    arg("--account", "NAME", "the same, as other verbs have it"),
)
"""The options of a list that name an account."""


class KeyOptions(key_records.KeyChanges, total=False):
    """Terms of a key as they are typed."""

    budget: budget_records.Allowance | str | None
    expires: read.Expiry | None


_CAP: Final = "it begins no new call once it has spent this much"
_BUDGET: Final = (
    "--budget",
    read.budget,
    "the most it may spend per day, week or month, such as 10/month; or a shared budget's name",
)
NEW_TERMS: Final = (
    arg("--name", "NAME", "a name to tell keys apart", default=SUPPRESS),
    make_expiry("when it expires: 30d, 12h"),
    *make_limits(arg),
    arg("--cap", read.amount_above_zero, f"{_CAP} (default: no cap)", dest="cap_nano"),
    arg(*_BUDGET),
)
"""The options of a new key."""


@verb(
    "key add",
    examples=(
        "key add alice --name laptop",
        "key add alice --models gpt-5.4-nano,demo/echo --cap 10 --expires 30d",
        "key add alice --name ci --budget 5/day",
        f"KEY=$({PROGRAM} key add alice)",
    ),
    arguments=(arg("account", "ACCOUNT", "the account that pays"), *NEW_TERMS),
)
def key_add(command: Command, account: str, **options: Unpack[KeyOptions]) -> None:
    """Make a key and print it on stdout. It is shown only once."""
    warn_of_unknown_models(command, options)
    books = command.open_books()
    terms, own = look_up(books, account, options)
    # Nothing waits until the gateway knows the key: it looks unknown ones up again.
    _hand_out(command, keys.add_key(books, account, key_records.KeyTerms(**terms), own=own))


@verb(
    "key edit",
    examples=("key edit laptop --cap 20 --expires 90d", "key edit ID --rpm 60 --budget none"),
    arguments=(
        _KEY,
        edit("--name", "NAME", "a name to tell keys apart"),
        edit("--cap", read.amount_above_zero, _CAP, dest="cap_nano"),
        edit(*_BUDGET),
        edit("--expires", read.expiry, f"when it expires: 30d, 12h, {MOMENTS}"),
        *make_limits(edit),
    ),
)
def key_edit(command: Command, key: str, **options: Unpack[KeyOptions]) -> None:
    """Change a key. Options that are left out change nothing."""
    warn_of_unknown_models(command, options)
    books = command.open_books()
    key_id = books.keys.find_id(key)
    changes, own = look_up(books, books.keys.read(key_id).account, options)
    changed = books.keys.edit(key_id, changes, own=own)
    books.wait_in_force()
    _tell_key(command, changed, "changed")


def look_up(
    books: Books, account: str, options: KeyOptions
) -> tuple[key_records.KeyChanges, budget_records.Allowance | None]:
    """Return the terms, with a shared budget by its id, and the key's own budget."""
    # An absent option changes nothing; `none` clears, and comes as None.
    has_budget, budget = "budget" in options, options.pop("budget", None)
    has_expiry, expires = "expires" in options, options.pop("expires", None)
    changes: key_records.KeyChanges = options
    if "name" in changes:
        changes["name"] = changes["name"] or ""
    if has_expiry:
        # The clock of the ledger, which may be another machine's, decides when a key ends.
        changes["expires_ms"] = expires and expires(books.clock())
    if isinstance(budget, budget_records.Allowance):
        return changes, budget
    if budget is not None:
        changes["budget_id"] = books.keys.budgets.find_id(budget, account)
    elif has_budget:
        changes["budget_id"] = None
    return changes, None


@verb(
    "key list",
    examples=("key list", "key list alice --json", "key list --unused 30d"),
    arguments=(
        arg("--unused", read.duration_seconds, "only keys that work and were not used for so long"),
    ),
    either=OF_ACCOUNT,
)
def key_list(command: Command, account: str | None, unused: int | None) -> None:
    """List keys of all accounts or of one, without their secrets."""
    books = command.open_books()
    found = books.keys.read_all(account)
    if unused is not None:
        now_ms = books.clock()
        found = [key for key in found if key.is_unused(now_ms - unused * 1000, now_ms)]
    command.show_list(found, views.KEY)


@verb(
    "key rotate",
    examples=("key rotate laptop", "key rotate ID --grace 24h"),
    arguments=(
        _KEY,
        arg(
            "--grace",
            read.duration_seconds,
            "how long the old key still works: 0, 1h, 24h or 7d",
            default=0,
        ),
    ),
)
def key_rotate(command: Command, key: str, grace: int) -> None:
    """Replace a key by one on the same terms, which is printed on stdout and shown only once."""
    books = command.open_books()
    key_id = books.keys.find_id(key)
    _hand_out(command, keys.rotate_key(books, key_id, grace_seconds=grace))
    books.wait_in_force()


@verb("key revoke", examples=("key revoke laptop", "key revoke ID"), arguments=(_KEY,))
def key_revoke(command: Command, key: str) -> None:
    """Revoke a key for good."""
    books = command.open_books()
    revoked = books.keys.revoke(books.keys.find_id(key))
    books.wait_in_force()
    _tell_key(command, revoked, "revoked")


def _tell_key(command: Command, key: key_records.KeyView, done: str) -> None:
    command.show(views.KEY.describe(key))
    command.say(f"Key {key.id} of account {key.account} is {done}.")


def _hand_out(command: Command, made: key_records.NewKey) -> None:
    """Print only the key to stdout.

    Its id is written to stderr first: if the key gets lost, it can be revoked.
    """
    command.say(f"Key {made.key.id} of account {made.key.account}, shown this once:")
    command.show({"secret": made.secret, **views.KEY.describe(made.key)}, made.secret)


def warn_of_unknown_models(command: Command, terms: key_records.TermChanges) -> None:
    models = command.config.models
    names = {alias: one.id for one in models.values() for alias in one.aliases}
    for model in terms.get("models") or ():
        if model not in models:
            # Callers may use an alias; lists of models have ids.
            hint = f"Write {name}, whose alias it is." if (name := names.get(model)) else _HINT
            command.say(f"Note: {command.config.path} has no model {model}. {hint}")


_HINT: Final = "Check the spelling."
