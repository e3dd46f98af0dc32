"""The command line's grammar: every verb with its arguments, help and examples.

Those of accounts are in `account_grammar`.
"""

from __future__ import annotations

from typing import Final, get_args

from gateway.cli import arguments as read
from gateway.cli import codes, keys, verbs
from gateway.cli.account_grammar import ACCOUNT_VERBS, JSON, MODELS, make_limits
from gateway.cli.parser import Verb, arg, choice, edit, flag
from gateway.exit_codes import ExitCode
from gateway.ledger import CodeStatus, UsageGroup

KEY_ID: Final = arg("id", "ID", read.word, "the key's id, as shown by `key list`")


VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "serve",
        "Run the gateway. This is the default verb.",
        verbs.serve,
        ("serve", "serve --config /etc/gateway.toml"),
        reads_keys=True,
    ),
    Verb(
        "check",
        f"Check and summarise the configuration. Exits {ExitCode.CONFIG} if it is invalid.",
        verbs.check,
        ("check", "check --json --config /etc/gateway.toml"),
        (JSON,),
        reads_keys=True,
    ),
    Verb(
        "audit",
        "Check that balances equal the sums of their entries and requests. "
        f"Exits {ExitCode.AUDIT_MISMATCH} if one does not.",
        verbs.audit,
        ("audit", "audit --json"),
        (JSON,),
    ),
    Verb(
        "backup",
        "Copy the database to a new private file. The gateway may be running.",
        verbs.backup,
        ("backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json"),
        (arg("file", "FILE", read.new_file, "the new file; must not exist"), JSON),
    ),
    Verb(
        "unit",
        "Print the systemd unit of this installation, and on stderr how to install it.",
        verbs.unit,
        ("unit > gateway.service", "unit --socket > gateway.socket"),
        (
            flag(
                "--socket", "print the socket unit, which queues callers while the service restarts"
            ),
        ),
    ),
    *ACCOUNT_VERBS,
    Verb(
        "key add",
        "Make a key and print it on stdout. It is shown only once.",
        keys.key_add,
        (
            "key add alice --name laptop",
            "key add alice --models gpt-5.4-nano,demo/echo --cap 10 --expires 30d",
            "KEY=$(python -m gateway key add alice)",
        ),
        (
            arg("account", "ACCOUNT", read.word, "the account that pays"),
            arg("--name", "NAME", read.word, "a name to tell keys apart"),
            arg(
                "--expires",
                "TIME",
                read.expiry,
                "when it expires: 30d, 12h, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
            ),
            *make_limits(arg),
            arg(
                "--cap",
                "AMOUNT",
                read.amount_above_zero,
                "the most it may ever spend (default: the account's balance)",
            ),
            JSON,
        ),
    ),
    Verb(
        "key edit",
        "Change a key. Options that are left out change nothing.",
        keys.key_edit,
        ("key edit ID --cap 20 --expires 90d", "key edit ID --models none --cap none"),
        (
            KEY_ID,
            edit("--name", "NAME", read.word, "a name to tell keys apart"),
            edit("--cap", "AMOUNT", read.amount_above_zero, "the most it may ever spend"),
            edit("--expires", "TIME", read.expiry, "when it expires: 30d, 12h or 2026-12-31"),
            edit("--models", "A,B", read.model_list, MODELS),
            JSON,
        ),
    ),
    Verb(
        "key list",
        "List keys, without their secrets.",
        keys.key_list,
        ("key list", "key list alice --json"),
        (
            arg("account", "ACCOUNT", read.word, "list only the keys of this account", nargs="?"),
            JSON,
        ),
    ),
    Verb(
        "key rotate",
        "Replace a key and print the new one on stdout. It is shown only once.",
        keys.key_rotate,
        ("key rotate ID", "key rotate ID --grace 24h"),
        (
            KEY_ID,
            arg(
                "--grace",
                "TIME",
                read.duration_seconds,
                "how long the old key still works: 0, 1h, 24h or 7d",
                default=0,
            ),
            JSON,
        ),
    ),
    Verb(
        "key revoke", "Revoke a key for good.", keys.key_revoke, ("key revoke ID",), (KEY_ID, JSON)
    ),
    Verb(
        "code make",
        "Make top-up codes and print them on stdout, one per line. They are shown only once.",
        codes.code_make,
        (
            "code make --amount 5 --count 20 --expires 90d > codes.txt",
            'code make --amount 25 --note "spring course"',
        ),
        (
            arg(
                "--amount",
                "AMOUNT",
                read.amount_above_zero,
                "the value of each code",
                required=True,
            ),
            arg("--count", "N", read.count, "the number of codes", default=1),
            arg(
                "--expires",
                "TIME",
                read.expiry,
                "when they expire: 30d, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
            ),
            arg("--note", "TEXT", read.word, "their purpose, shown in lists"),
            JSON,
        ),
    ),
    Verb(
        "code list",
        "List codes, without their secrets.",
        codes.code_list,
        ("code list", "code list --status open --json"),
        (choice("--status", get_args(CodeStatus), "list only codes with this status"), JSON),
    ),
    Verb(
        "code void",
        "Void a code, or all open codes of a batch.",
        codes.code_void,
        ("code void ID", "code void --batch ID"),
        (
            arg("id", "ID", read.word, "the id, as shown by `code list`"),
            flag("--batch", "ID is the id of a batch"),
            JSON,
        ),
    ),
    Verb(
        "usage",
        "Sum up requests, tokens and cost.",
        verbs.usage,
        ("usage", "usage --account alice --by model", "usage --since 2026-11-01 --csv > usage.csv"),
        (
            arg("--account", "A", read.word, "only this account"),
            choice("--by", get_args(UsageGroup), "one line per day, model or key", default="day"),
            arg("--since", "D", read.start, "the first date (UTC)"),
            arg("--until", "D", read.end, "the last date (UTC), included"),
        ),
        either=(JSON, flag("--csv", "write CSV to stdout")),
    ),
)

GROUPS: Final = {
    "account": "Manage accounts and their balances.",
    "key": "Manage the keys of accounts.",
    "code": "Manage top-up codes; each can be redeemed once.",
}
