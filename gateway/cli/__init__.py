"""The command line: `python -m gateway VERB`.

    command     runs a command: errors become messages and exit codes; what a verb sees of it:
                configuration, books, who asks, output
    verbs       the decorator that makes a verb of a function; the first words of all verbs
    parser      argparse's parser, with shorter errors
    arguments   parses amounts, durations, times and lists
    output      writes data to stdout, as tables or JSON, and messages to stderr
    process  accounts  books  keys
                the verbs of these subjects, with their arguments, help and examples

The verbs of an extra are in its `verbs`.

May import: `base`, `config`, `extension`, `ledger`, `admin`, `server`.
"""

from gateway.cli.command import main

__all__ = ["main"]
