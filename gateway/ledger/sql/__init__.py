"""Code that SQLite and PostgreSQL share: statements in the SQL of both, and the operator's books.

database    the connection as both drivers offer it, and how statements are written; what the parts of
            the books do with it: reading, changing, noting events; terms as columns
rows        columns and the records made of them: entries, receipts, sums of charges; what a serving
            process reads
audit       the proof of the books: its checks are in `proof.sql` and `proof_at_start.sql`, and each
            database has a `proof.sql` of its own
books       implements `Books`, but for what each database adds: the parts together
accounts  keys  budgets  entries    the parts
"""
