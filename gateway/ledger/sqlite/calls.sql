-- Schema version 6: indexes for the search of calls in all accounts.

-- Failures are few; a search for one outcome or status looks at no other calls.
CREATE INDEX requests_failed ON requests (id, outcome, status, provider, account_id)
WHERE outcome NOT IN ('pending', 'complete');

-- A provider that serves rarely is found without a look at the calls of the others.
CREATE INDEX requests_by_provider ON requests (provider, id, account_id);
