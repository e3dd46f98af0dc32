"""The ledger of a serving process: decisions in memory, commits by one writer.

ledger    opens the rest, and implements `Ledger`
memory    accounts, keys and holds; a request reads no row
writer    the queue of holds and settlements, and its batches
thread    the work on the writer's connection: look for changes, commit a batch
changes   what other processes commit
recovery  the start: what a crash left, the audit, everything into memory
progress  tells how a long start goes
reader    receipts and spending, on a connection of its own
wal       keeps the write-ahead log small
"""
