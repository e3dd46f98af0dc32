"""Tests of lists of calls, sums of usage, statements of a period."""
