"""The command line's grammar: every verb with its arguments, help and examples."""

from __future__ import annotations

from typing import Final, get_args

from gateway.cli import arguments as read
from gateway.cli import codes, keys, signin, verbs
from gateway.cli.parser import Verb, arg, choice, edit, flag
from gateway.exit_codes import ExitCode
from gateway.ledger import CodeStatus, UsageGroup

JSON: Final = flag("--json", "write JSON to stdout")
ACCOUNT_NAME: Final = arg("name", "NAME", read.word, "the account's name")
KEY_ID: Final = arg("id", "ID", read.word, "the key's id, as shown by `key list`")
IDEMPOTENCY_KEY: Final = arg(
    "--idempotency-key",
    "KEY",
    read.word,
    "any text; a second command with the same KEY changes nothing",
)


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
    Verb(
        "account add",
        "Add an account; create the database if there is none.",
        verbs.account_add,
        ("account add alice --credit 20", "account add admin --operator"),
        (
            arg("name", "NAME", read.word, "a name that is not yet taken"),
            arg("--credit", "AMOUNT", read.amount_or_zero, "the first balance", default=0),
            flag("--operator", "make it an operator's account"),
            JSON,
        ),
    ),
    Verb(
        "account list",
        "List the accounts with their balances.",
        verbs.account_list,
        ("account list", "account list --json"),
        (JSON,),
    ),
    Verb(
        "account show",
        "Show an account with its keys and latest entries.",
        verbs.account_show,
        ("account show alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account credit",
        "Add money to an account's balance.",
        verbs.account_credit,
        (
            'account credit alice 20 --note "invoice 17"',
            "account credit alice 20 --idempotency-key invoice-17",
        ),
        (
            ACCOUNT_NAME,
            arg("amount", "AMOUNT", read.amount_above_zero, "such as 5 or 0.25"),
            arg("--note", "TEXT", read.word, "the reason, kept with the entry"),
            IDEMPOTENCY_KEY,
            JSON,
        ),
    ),
    Verb(
        "account correct",
        "Correct a balance, up or down.",
        verbs.account_correct,
        (
            'account correct alice -0.5 --note "charged twice by hand"',
            'account correct alice -0.25 --note "interrupted" --request req_0123456789abcdef',
            'account correct alice 0 --note "no reply" --request req_0123456789abcdef',
        ),
        (
            ACCOUNT_NAME,
            arg("amount", "±AMOUNT", read.amount, "added: 0.25 or -0.5"),
            arg("--note", "TEXT", read.word, "the reason", required=True),
            arg("--request", "ID", read.word, "the interrupted request that this settles"),
            IDEMPOTENCY_KEY,
            JSON,
        ),
    ),
    Verb(
        "account suspend",
        "Refuse an account's requests until it is resumed.",
        verbs.account_suspend,
        ("account suspend alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account resume",
        "Accept a suspended account's requests again.",
        verbs.account_resume,
        ("account resume alice",),
        (ACCOUNT_NAME, JSON),
    ),
    Verb(
        "account passwd",
        "Set an account's password for the console and end its sessions.",
        signin.account_passwd,
        ("account passwd alice", "account passwd alice < password.txt"),
        (ACCOUNT_NAME,),
    ),
    Verb(
        "account signin-link",
        "Print a link that signs in to the console as the account. It works once, within a day.",
        signin.account_signin_link,
        ("account signin-link alice",),
        (ACCOUNT_NAME,),
    ),
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
            arg("--models", "A,B", read.model_list, "the only models it may use (default: all)"),
            arg("--rpm", "N", read.count, "requests per minute; 0 = unlimited"),
            arg("--tpm", "N", read.count, "tokens per minute; 0 = unlimited"),
            arg("--concurrency", "N", read.count, "requests in flight at once; 0 = unlimited"),
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
            edit("--models", "A,B", read.model_list, "the only models it may use"),
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
