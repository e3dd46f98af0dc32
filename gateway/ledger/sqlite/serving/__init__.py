"""The ledger of a serving process on one SQLite file.

ledger    opens the rest, and implements `Ledger`
store     one round on the writer's connection: look for changes, commit a batch
thread    a connection with a thread of its own
changes   what other processes commit
recovery  the start: what a crash left, the audit, everything into memory
reader    receipts and spending, on a connection of its own
wal       keeps the write-ahead log small, and warns where it cannot
"""
