"""The ledger of a serving process, whichever database it has: decisions in memory, one writer.

ledger    the contract: hold, confirm, settle; its waits, and its receipts
holds     the check and the reservation of money in one step, and their release
memory    accounts and keys; a request reads no row
queue     holds and settlements that are not committed, and who waits for them
writer    rounds: when one begins, a batch to commit, what was committed into memory
store     the contract of a store, which carries out rounds; what a round is given and reports
health    whether commits work: outages, retries and their log lines
observer  counts refusals and calls to providers, beside the books
"""
