"""The command line: `python -m gateway VERB`.

    main        runs a command: errors become messages and exit codes
    command     what a verb sees of it: configuration, books, who asks, output
    verbs       the decorator that makes a verb of a function; the words, and argparse's parser
    arguments   parses amounts, durations, times and lists; writes data to stdout, messages to stderr
    process  check  accounts  books  keys  calls  receipts  prices
                the verbs of these subjects, with their arguments, help and examples

May import: the leaves, `config`, `ledger`, `upstream`, `price_lists`, `admin`, `alerts`, `server`.
"""

from gateway.cli.main import main

__all__ = ["main"]
