-- What the feed adds to a submission, once more (docs/decisions/0021). PostgreSQL reads the text of a trigger's condition anew for every
-- statement, which took as long as writing the change row; the columns that a statement sets it knows. So the trigger of `stacks` names
-- columns instead of a condition, and a submission, which sets none of them, passes it by. (What it would miss are columns that another
-- trigger changes before a row is written; there is none on this table.)
drop trigger feed_update on stacks;
create or replace function feed_stack_update() returns trigger language plpgsql set search_path from current as $$
declare
  is_wanted boolean := (new.name, new.drift) is distinct from (old.name, old.drift) or new.deleted_at is distinct from old.deleted_at;
begin
  if not is_wanted and new.description is not distinct from old.description then
    return null;
  end if;
  if is_wanted and (new.last_sequence <= old.last_sequence or new.sequence_xid <> pg_current_xact_id()) then
    raise exception 'a change of name, drift or deleted_at of a stack must take a number' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    values (case when is_wanted then 'stack' else 'stack_status' end, new.id, 'stack', new.id, 'update'),
           ('generator', new.generator_id, 'stack', new.id, 'update');
  return null;
end $$;
create trigger feed_update after update of name, drift, deleted_at, description on stacks for each row execute function feed_stack_update();

create function refuse_fallen_number() returns trigger language plpgsql as $$
begin
  if new.last_sequence < old.last_sequence then
    raise exception 'the number of a stack never falls' using errcode = 'BK003';
  end if;
  return null;
end $$;
create trigger feed_number after update of last_sequence on stacks for each row execute function refuse_fallen_number();

-- Rows are found by their transaction alone, and within it by their number: one index does both.
alter table change_log drop constraint change_log_pkey, add primary key (xid, seq);
drop index change_log_by_xid;
