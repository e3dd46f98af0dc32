"""The console in a real browser, against `python -m gateway` on a database of the test's own.

The tests bear the numbers of the console's checks:

test_first_run      B1 the whole first journey, B2 a key is shown once
test_by_script      B3 the API alone does what the page does
test_accessible     B4 axe on all pages, both themes, narrow and wide; B6 nothing from elsewhere
test_keyboard       B5 all without a mouse
test_hostile        B7 names that are markup, B8 other sites, B9 other accounts' ids
test_once           B10 double clicks move money once
test_figures        B11 chart, table, CSV, API and ledger agree; B12 nothing, much, long, large
test_sessions       B13 sessions end, and one comes back
test_screenshots    B14 pictures of all pages, on request
test_failures       B15 restarts, locks, failures

kit                 the browser, a served gateway, a witness of all that goes wrong
pages               where the pages are
"""
