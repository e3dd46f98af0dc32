"""The command line: `python -m gateway VERB`.

    main        runs a command and returns its exit code
    grammar     every verb with its arguments, help and examples
    account_grammar   the part of accounts
    parser      the records of the grammar; builds the argparse parser from them
    arguments   parses amounts, durations, times and lists
    command     a command as its verb sees it: options, configuration, output
    verbs       the verbs for usage, audit and backup
    accounts  keys  codes  signin  check  unit   the verbs of these subjects
    tables      accounts, keys, entries and usage as tables and CSV
    output      writes data to stdout and messages to stderr

May import: the leaves, `config`, `ledger`, `admin`, `server`.
"""

from gateway.cli.main import main

__all__ = ["main"]
