"""The ledger of a serving process, whichever database it has: decisions in memory, one writer.

ledger    the part of `Ledger` that is the same with each database
memory    accounts, keys and holds; a request reads no row
writer    rounds: commit a batch, put what was committed into memory
queue     holds and settlements that are not committed, and who waits for them
rounds    what a round is given and reports; the contract of a store, which carries it out
schedule  when a round begins, and when it looks for changes
health    whether commits work: outages, retries and their log lines
observer  counts refusals and calls to providers, beside the books; sums are what it has counted
progress  tells how a long start goes
"""
