"""Code that SQLite and PostgreSQL share: statements in the SQL of both, and the books made of them.

connection  the connection as both drivers offer it, and how statements are written
books/      implements `Books`, but for what each database adds
posting     the entries of the operator's verbs
terms       the columns of accounts' and keys' terms
budgets     what budgets were charged
costs       what providers bill
receipts    the receipt of one request
lookups     receipts, spending and ended keys, for a serving process; snapshot fills its memory
observations  sums of refusals and of calls to providers, written beside the books
audit       the proof of the books; checks has its queries
"""
