-- A submission is the write that everybody waits for, and its triggers cost three times the row itself (144 → 588 µs; docs/decisions/0007).
-- Those on its path are now row triggers: no transition table is built for one row, and a condition that PostgreSQL checks itself
-- keeps the function from being called where nothing that agents or lists show has changed.

drop trigger feed_update on stacks;
drop function feed_stacks_update();
create function feed_stack_update() returns trigger language plpgsql set search_path from current as $$
declare
  is_wanted boolean := (new.name, new.drift) is distinct from (old.name, old.drift) or new.deleted_at is distinct from old.deleted_at;
begin
  if is_wanted and new.last_sequence <= old.last_sequence then
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
create trigger feed_update after update on stacks for each row
  when ((new.name, new.drift) is distinct from (old.name, old.drift) or new.deleted_at is distinct from old.deleted_at
        or new.description is distinct from old.description or new.last_sequence < old.last_sequence)
  execute function feed_stack_update();

-- The number must be the one this transaction took from the stack; a new revision wakes the pairs that were removed. One statement
-- does what every submission needs: each further one costs as much as the row.
drop trigger feed_insert on deployment_objects;
drop function feed_objects_insert();
create function feed_object_insert() returns trigger language plpgsql set search_path from current as $$
declare
  has_removed boolean;
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', new.stack_id, 'deployment_object', new.id, 'insert' from stacks s
    where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.sequence_xid = pg_current_xact_id()
    returning not new.is_deletion_marker and exists (select from agent_stack_status r where r.stack_id = new.stack_id and r.phase = 'removed') into has_removed;
  if not found then
    raise exception 'a deployment object must carry the number its transaction took from the stack' using errcode = 'BK003';
  end if;
  if has_removed then
    update agent_stack_status s set phase = 'pending', code = 'applying', message = null
      from (select r.agent_id from agent_stack_status r
            where r.stack_id = new.stack_id and r.phase = 'removed'
              and exists (select from agent_targets t where t.agent_id = r.agent_id and t.stack_id = r.stack_id)
            order by r.agent_id for no key update of r) woken
      where s.agent_id = woken.agent_id and s.stack_id = new.stack_id;
  end if;
  return null;
end $$;
create trigger feed_insert after insert on deployment_objects for each row execute function feed_object_insert();

-- Counts follow a new head with the first report on it instead of with the submission: `current` belongs to the row's own object, and
-- whoever reads it compares that with the head of the stack. So a submission neither writes nor locks a count.
drop trigger count_update on stacks;
drop function count_stacks_update();
drop function move_summary(uuid[]);
create or replace function summary_add(deltas summary_delta[]) returns void language plpgsql set search_path from current as $$
begin
  if coalesce(cardinality(deltas), 0) = 0 then
    return;
  end if;
  -- A statement of its own: the next one then reads the head as it is now that the rows are ours. A head that was read before would
  -- turn a row back that a newer report has moved on.
  perform from stack_summary s where (s.stack_id, s.slot) in (select d.stack_id, d.slot from unnest(deltas) d)
    order by s.stack_id, s.slot for no key update;
  update stack_summary s set
      object_id = d.head, current = case when s.object_id = d.head then s.current else 0 end + d.current,
      total = s.total + d.total, failed = s.failed + d.failed, held = s.held + d.held,
      drifted = s.drifted + d.drifted, silent = s.silent + d.silent, healthy = s.healthy + d.healthy,
      degraded = s.degraded + d.degraded, failing = s.failing + d.failing,
      oldest_seen_at = case when not d.is_seen_changed then s.oldest_seen_at when s.silent + d.silent <= 0 then null else (
        select min(l.last_seen_at) from agent_targets t join agents a on a.id = t.agent_id join agent_liveness l on l.agent_id = a.id
        where t.stack_id = s.stack_id and summary_slot(t.agent_id) = s.slot and a.connection_state = 'disconnected') end
    from (select x.stack_id, x.slot, k.head_object_id as head, sum(x.total) as total, sum(x.failed) as failed, sum(x.held) as held,
                 sum(x.drifted) as drifted, sum(x.silent) as silent, sum(x.healthy) as healthy, sum(x.degraded) as degraded,
                 sum(x.failing) as failing, bool_or(x.is_seen_changed) as is_seen_changed,
                 count(*) filter (where x.new_object = k.head_object_id)
                   - count(*) filter (where x.old_object = k.head_object_id and c.object_id = k.head_object_id) as current
          from unnest(deltas) x join stacks k on k.id = x.stack_id join stack_summary c on c.stack_id = x.stack_id and c.slot = x.slot
          group by x.stack_id, x.slot, k.head_object_id) d
    where s.stack_id = d.stack_id and s.slot = d.slot;
end $$;
