"""Payments by card: holders buy credit at a payment provider. Made only where one is configured.

    webhook   the address at which the provider tells what was paid; adds all of it to the application
    stripe    the only provider, by Stripe's package
    cashier   the seam: what a provider of payment pages has to offer, and its errors; opens the pages,
              brings orders to what the provider says, looks open orders up

Who owns the truth: the order says for whom and how much, the provider whether it was paid, and the
books whether that was credited. An order is a row before the provider is asked, and the page's address
is told only once its id is kept; so whoever can pay can be looked up. What the provider tells comes late,
twice, in any order or never, and `ledger.sql.orders` makes the same of it.

May import: the leaves, `config`, `ledger`, `api`, `console`.
"""
