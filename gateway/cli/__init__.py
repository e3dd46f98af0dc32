"""The command line: `python -m gateway VERB`.

    main        runs a command and returns its exit code
    grammar     every verb with its arguments, help and examples
    account_grammar  key_grammar  budget_grammar  token_grammar   the parts of these subjects
    parser      the records of the grammar; builds the argparse parser from them
    arguments   parses amounts, durations, times and lists
    command     a command as its verb sees it: options, configuration, output
    verbs       the verbs for usage, audit, events and backup
    accounts  keys  budgets  codes  tokens  calls  signin  moves   the verbs of these subjects
    check  unit  observations  price_lists  alerts   more of them
    tables      accounts, keys, entries and usage as tables and CSV
    actor       the name of the person who runs a command
    output      writes data to stdout and messages to stderr

May import: the leaves, `config`, `ledger`, `upstream`, `price_lists`, `admin`, `alerts`, `server`.
"""

from gateway.cli.main import main

__all__ = ["main"]
