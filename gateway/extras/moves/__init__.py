"""`export` and `import`: a whole ledger goes to another machine, or to another kind of database.

Without it a database of a file moves as a backup, and one of PostgreSQL by its own tools; neither
becomes the other.

verbs  the two commands
files  the file of JSON lines, proven by the audit on both sides
"""

from __future__ import annotations

from gateway.base.process import ExitCode
from gateway.extension import Extra

EXTRA = Extra(
    words={
        "export": (
            "Write the whole ledger to a new private file of JSON lines: no key or password, but the secrets"
            f" of holders' webhooks. Exits {ExitCode.AUDIT_MISMATCH} if the books do not add up."
        ),
        "import": (
            "Make a new database of an exported file, or fill an empty one of PostgreSQL."
            f" Exits {ExitCode.AUDIT_MISMATCH}, and makes none, if the books do not add up."
        ),
    }
)
