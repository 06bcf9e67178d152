-- A change row is written by everybody who writes anything; what it costs them is now less (docs/decisions/0018).

-- Only agents that come back with an old cursor look rows up by scope, and only their own: which of its stacks changed they are told by
-- `stacks.sequence_xid`, the transaction that changed last what a stack wants. So a new revision is spared the one index of the log whose
-- pages lie all over it.
create index change_log_by_agent on change_log (scope_id, xid) where scope_kind = 'agent';
drop index change_log_by_scope;

-- PostgreSQL reads the text of a check anew for every statement, which takes longer than checking. All rows come from the functions of the
-- triggers, which say insert, update or delete as literals.
alter table change_log drop constraint change_log_op_check;

-- Whoever changes what agents must see leaves its transaction on the stack, not only a higher number.
create or replace function feed_stack_update() returns trigger language plpgsql set search_path from current as $$
declare
  is_wanted boolean := (new.name, new.drift) is distinct from (old.name, old.drift) or new.deleted_at is distinct from old.deleted_at;
begin
  if is_wanted and (new.last_sequence <= old.last_sequence or new.sequence_xid <> pg_current_xact_id()) then
    raise exception 'a change of name, drift or deleted_at of a stack must take a number' using errcode = 'BK003';
  end if;
  if new.last_sequence < old.last_sequence then
    raise exception 'the number of a stack never falls' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    values (case when is_wanted then 'stack' else 'stack_status' end, new.id, 'stack', new.id, 'update'),
           ('generator', new.generator_id, 'stack', new.id, 'update');
  return null;
end $$;
