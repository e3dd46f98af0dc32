-- Triggers against what no program may do: change history, or end something twice.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER entries_kept BEFORE UPDATE OR DELETE ON entries
FOR EACH ROW EXECUTE FUNCTION refuse_change('entries');

CREATE TRIGGER events_kept BEFORE UPDATE OR DELETE ON events
FOR EACH ROW EXECUTE FUNCTION refuse_change('events');

CREATE TRIGGER requests_kept BEFORE DELETE ON requests
FOR EACH ROW EXECUTE FUNCTION refuse_change('requests');

CREATE TRIGGER codes_kept BEFORE DELETE ON codes
FOR EACH ROW EXECUTE FUNCTION refuse_change('codes');

CREATE TRIGGER budgets_kept BEFORE DELETE ON budgets
FOR EACH ROW EXECUTE FUNCTION refuse_change('budgets');

CREATE FUNCTION refuse_second_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% end once', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER requests_settle_once BEFORE UPDATE ON requests
FOR EACH ROW WHEN (OLD.state <> 'pending') EXECUTE FUNCTION refuse_second_end('requests');

CREATE TRIGGER codes_end_once BEFORE UPDATE ON codes
FOR EACH ROW WHEN (OLD.redeemed_ms IS NOT NULL OR OLD.voided_ms IS NOT NULL)
EXECUTE FUNCTION refuse_second_end('codes');

CREATE TRIGGER orders_kept BEFORE DELETE ON orders
FOR EACH ROW EXECUTE FUNCTION refuse_change('orders');

CREATE FUNCTION refuse_other_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an order keeps its terms, its payment page and its credit'
    USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER orders_keep_terms BEFORE UPDATE ON orders
FOR EACH ROW WHEN (
    (NEW.id, NEW.account_id, NEW.amount_nano, NEW.currency)
    <> (OLD.id, OLD.account_id, OLD.amount_nano, OLD.currency)
    OR NEW.session_id IS DISTINCT FROM coalesce(OLD.session_id, NEW.session_id)
    OR NEW.entry_id IS DISTINCT FROM coalesce(OLD.entry_id, NEW.entry_id)
)
EXECUTE FUNCTION refuse_other_terms();
