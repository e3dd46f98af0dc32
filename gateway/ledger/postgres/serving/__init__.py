"""The ledger of one node: the shared writer over rounds in PostgreSQL.

ledger    opens the rest, and implements `Ledger`
store     carries out rounds; connects again when the database was away
messages  a round's items as JSON, and its answer
feed      what others changed: read when told, and every quarter of a second
listener  hears of changes, on a connection of its own
reader    receipts and spending
upkeep    takes over dead nodes; makes and drops months
"""
