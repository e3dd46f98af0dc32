"""A small ledger in memory: the reference that the contract's tests compare SQLite with.

It is written for its readers, as plainly as the contract allows. The lives of completions are
played against it too, with commits that take as long as a script says.
"""

from tests.ledger.memory.books import MemoryBooks
from tests.ledger.memory.ledger import Disk, MemoryHold, MemoryLedger
from tests.ledger.memory.storage import MemoryStorage

__all__ = ["Disk", "MemoryBooks", "MemoryHold", "MemoryLedger", "MemoryStorage"]
