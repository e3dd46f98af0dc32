"""The ledger of a serving process: decisions in memory, commits by one writer.

ledger    opens the rest, and implements `Ledger`
memory    accounts, keys and holds; a request reads no row
writer    rounds: commit a batch, put what was committed into memory
queue     holds and settlements that are not committed, and who waits for them
schedule  when a round begins, and when it looks for changes
health    whether commits work: outages, retries and their log lines
store     one round on the writer's connection: look for changes, commit a batch
observer  counts refusals and calls to providers, beside the books
thread    a connection with a thread of its own
changes   what other processes commit
recovery  the start: what a crash left, the audit, everything into memory
progress  tells how a long start goes
reader    receipts and spending, on a connection of its own
wal       keeps the write-ahead log small, and warns where it cannot
"""
