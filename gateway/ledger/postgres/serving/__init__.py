"""The ledger of one node: the shared writer over rounds in PostgreSQL.

ledger    opens it: connects, proves, loads, registers the node; reads receipts and spending
store     carries out rounds; connects again when the database was away
messages  a round's items as JSON, and its answer
feed      what others changed, of which it hears or which it finds; dead nodes, and months
"""
