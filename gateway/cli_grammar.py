"""The command line's grammar: every verb with its arguments, its help and its examples."""

from __future__ import annotations

from typing import Final

from gateway import cli_arguments as types
from gateway import cli_keys as keys
from gateway import cli_signin as signin
from gateway import cli_verbs as verbs
from gateway.cli_codes import CODE_VERBS
from gateway.cli_words import ACCOUNT_NAME, IDEMPOTENCY_KEY, JSON, KEY_ID, Verb, arg, edit

VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "serve",
        "Run the gateway; without a verb this is what happens too.",
        verbs.serve,
        ("serve", "serve --config /etc/gateway.toml"),
        reads_keys=True,
    ),
    Verb(
        "check",
        "Say what the gateway makes of its configuration; exits 78 when it cannot be used.",
        verbs.check,
        ("check", "check --json --config /etc/gateway.toml"),
        (JSON,),
        reads_keys=True,
    ),
    Verb(
        "audit",
        "Prove balances from entries and sums from requests; exits 3 when one does not add up.",
        verbs.audit,
        ("audit", "audit --json"),
        (JSON,),
    ),
    Verb(
        "backup",
        "Copy the database to a new file, consistent and private, while the gateway serves.",
        verbs.backup,
        ("backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json"),
        (
            arg("file", metavar="FILE", type=types.new_file, help="where to; it must not exist"),
            JSON,
        ),
    ),
    Verb(
        "unit",
        "Print the systemd unit of this installation; on stderr stands what to do with it.",
        verbs.unit,
        (
            "unit > gateway.service",
            "unit --socket > gateway.socket",
        ),
        (
            arg(
                "--socket",
                action="store_true",
                help="the socket unit, which keeps callers waiting while the service restarts",
            ),
        ),
    ),
    Verb(
        "account add",
        "Make an account, and the database if there is none.",
        verbs.account_add,
        ("account add alice --credit 20", "account add admin --operator"),
        (
            arg("name", metavar="NAME", type=types.word, help="its name, not yet taken"),
            arg(
                "--credit",
                metavar="AMOUNT",
                type=types.amount_or_zero,
                default=0,
                help="what it starts with",
            ),
            arg("--operator", action="store_true", help="mark it as an operator's account"),
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
        "Show an account, its keys and its latest entries.",
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
            arg("amount", metavar="AMOUNT", type=types.amount_above_zero, help="such as 5 or 0.25"),
            arg("--note", metavar="TEXT", type=types.word, help="what it is for"),
            IDEMPOTENCY_KEY,
            JSON,
        ),
    ),
    Verb(
        "account correct",
        "Put a balance right, in either direction.",
        verbs.account_correct,
        (
            'account correct alice -0.5 --note "charged twice by hand"',
            'account correct alice -0.25 --note "interrupted" --request req_0123456789abcdef',
            'account correct alice 0 --note "nothing came" --request req_0123456789abcdef',
        ),
        (
            ACCOUNT_NAME,
            arg("amount", metavar="±AMOUNT", type=types.amount, help="what is added: 0.25, -0.5"),
            arg("--note", metavar="TEXT", type=types.word, required=True, help="why"),
            arg("--request", metavar="ID", type=types.word, help="the request it is about"),
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
        "Set an account's password for the console; its sessions there end.",
        signin.account_passwd,
        ("account passwd alice", "account passwd alice < password.txt"),
        (ACCOUNT_NAME,),
    ),
    Verb(
        "account signin-link",
        "Print a link that signs in to the console as the account: once, within a day.",
        signin.account_signin_link,
        ("account signin-link alice",),
        (ACCOUNT_NAME,),
    ),
    Verb(
        "key add",
        "Make a key; it is printed on stdout, this once.",
        keys.key_add,
        (
            "key add alice --name laptop",
            "key add alice --models gpt-5.4-nano,demo/echo --cap 10 --expires 30d",
            "KEY=$(python -m gateway key add alice)",
        ),
        (
            arg("account", metavar="ACCOUNT", type=types.word, help="whose balance it spends"),
            arg("--name", metavar="NAME", type=types.word, help="to tell keys apart"),
            arg(
                "--expires",
                metavar="TIME",
                type=types.expiry,
                help="30d, 12h, 2026-12-31 or 2026-12-31T18:00 (UTC); never by default",
            ),
            arg(
                "--models",
                metavar="A,B",
                type=types.model_list,
                help="the only models it may use; all by default",
            ),
            arg("--rpm", metavar="N", type=types.count, help="requests per minute; 0 = no limit"),
            arg("--tpm", metavar="N", type=types.count, help="tokens per minute; 0 = no limit"),
            arg("--concurrency", metavar="N", type=types.count, help="at once; 0 = no limit"),
            arg(
                "--cap",
                metavar="AMOUNT",
                type=types.amount_above_zero,
                help="what it may spend in all; the account's balance by default",
            ),
            JSON,
        ),
    ),
    Verb(
        "key edit",
        "Change a key; what is not named stays as it is.",
        keys.key_edit,
        ("key edit ID --cap 20 --expires 90d", "key edit ID --models none --cap none"),
        (
            KEY_ID,
            edit("--name", "NAME", types.word, "to tell keys apart"),
            edit("--cap", "AMOUNT", types.amount_above_zero, "what it may spend in all"),
            edit("--expires", "TIME", types.expiry, "30d, 12h, 2026-12-31"),
            edit("--models", "A,B", types.model_list, "the only models it may use"),
            JSON,
        ),
    ),
    Verb(
        "key list",
        "List keys, without their secrets.",
        keys.key_list,
        ("key list", "key list alice --json"),
        (
            arg("account", metavar="ACCOUNT", nargs="?", type=types.word, help="of this one alone"),
            JSON,
        ),
    ),
    Verb(
        "key rotate",
        "Replace a key by a new one, printed on stdout, this once.",
        keys.key_rotate,
        ("key rotate ID", "key rotate ID --grace 24h"),
        (
            KEY_ID,
            arg(
                "--grace",
                metavar="TIME",
                type=types.duration_seconds,
                default=0,
                help="how long the old key still works: 0 (default), 1h, 24h, 7d",
            ),
            JSON,
        ),
    ),
    Verb("key revoke", "End a key.", keys.key_revoke, ("key revoke ID",), (KEY_ID, JSON)),
    *CODE_VERBS,
    Verb(
        "usage",
        "Sum up requests, tokens and cost.",
        verbs.usage,
        ("usage", "usage --account alice --by model", "usage --since 2026-11-01 --csv > usage.csv"),
        (
            arg("--account", metavar="A", type=types.word, help="of this account alone"),
            arg("--by", choices=("day", "model", "key"), default="day", help="a line for each"),
            arg("--since", metavar="D", type=types.start, help="from this date (UTC) on"),
            arg("--until", metavar="D", type=types.end, help="to this date (UTC), included"),
        ),
        either=(JSON, arg("--csv", action="store_true", help="answer in CSV on stdout")),
    ),
)

GROUPS: Final = {
    "account": "Accounts and their balances.",
    "key": "The keys of accounts.",
    "code": "Codes that top up a balance, once each.",
}
