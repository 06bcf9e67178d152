-- What a submission still asked the database on behalf of the feed, by two look-ups less (docs/decisions/0025).

-- "Removed" is the past as soon as a revision that is wanted followed it. Who needs to know that sees it from the numbers; a submission no
-- longer looks for pairs to wake. A report of more than the stack has ever had was meant for another history: it proves nothing.
do $do$
begin
  execute format($create$
create function removal_is_past(of_stack uuid, at_rev bigint, with_object uuid) returns boolean language sql stable as $body$
  select not exists (select from %1$I.stacks k where k.id = of_stack and k.last_sequence >= at_rev)
    or exists (select from %1$I.deployment_objects d where d.stack_id = of_stack and not d.is_deletion_marker
                 and d.sequence_id > greatest(at_rev, (select o.sequence_id from %1$I.deployment_objects o where o.id = with_object)))
$body$
  $create$, current_schema());
end $do$;
drop index agent_stack_status_removed;

-- A pair that ends owes a removal, unless it was reported and nothing came since.
create or replace function feed_targets_delete() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'delete' from old_rows union all select 'stack_status', stack_id, 'target', agent_id, 'delete' from old_rows;
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, phase, code)
    select o.agent_id, o.stack_id, f.epoch, k.last_sequence, 'pending', 'removing' from old_rows o join stacks k on k.id = o.stack_id cross join feed_state f
    on conflict (agent_id, stack_id) do update set phase = 'pending', code = 'removing', message = null
      where s.phase <> 'removed' or removal_is_past(s.stack_id, s.rev, s.object_id);
  return null;
end $$;

-- Whoever takes a number has it noted for the rest of the transaction: stack, number, head, transaction. A savepoint that is rolled back
-- takes its note along, and since the transaction is named, no note of another one is ever taken for ours.
drop trigger feed_number on stacks;
drop function refuse_fallen_number();
create function feed_stack_number() returns trigger language plpgsql as $$
declare
  -- One question for both: PostgreSQL makes each of them ready anew in every transaction.
  noted text := case when new.last_sequence < old.last_sequence then null else coalesce(set_config('brokkr.taken', case
    when new.sequence_xid = pg_current_xact_id() then new.id || ' ' || new.last_sequence || ' ' || new.head_object_id || ' ' || new.sequence_xid end, true), '') end;
begin
  if noted is null then
    raise exception 'the number of a stack never falls' using errcode = 'BK003';
  end if;
  return null;
end $$;
create trigger feed_number after update of last_sequence, head_object_id on stacks for each row execute function feed_stack_number();

-- As in 0035: the number this transaction took, the head, this very transaction. By the note, or else by the stack: one transaction may have
-- taken several numbers, and one statement may take the number and write the revision before anything is noted.
do $do$
begin
  execute format($create$
create or replace function feed_object_insert() returns trigger language plpgsql as $body$
begin
  if current_setting('brokkr.taken', true) = new.stack_id || ' ' || new.sequence_id || ' ' || new.id || ' ' || new.xid then
    return new;
  end if;
  if not exists (select from %1$I.stacks s where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.head_object_id = new.id
                   and s.sequence_xid = pg_current_xact_id() and s.sequence_xid = new.xid) then
    raise exception 'a deployment object must be the head of its stack and carry the number its transaction took from it' using errcode = 'BK003';
  end if;
  return new;
end $body$
  $create$, current_schema());
end $do$;
