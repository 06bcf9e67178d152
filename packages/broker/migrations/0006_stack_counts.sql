-- Counts of the targets of each stack by their state. At most sixteen rows per stack, by the low bits of the agent's id, so that thousands
-- of agents that report on one stack do not wait for one row. Triggers add the differences in the transaction that causes them.
--
-- `total` counts agent_targets; `current`, `failed`, `held`, `drifted` the status of targets; `healthy`, `degraded`, `failing` the health
-- of targets whose agent is not silent, `silent` the others. `current` belongs to the row's own object, which follows the head of the stack
-- with the first report on it; readers compare it with the head. So a submission neither writes nor locks a count.
--
-- Lock order: see 0007.

create table stack_summary (
  stack_id uuid not null references stacks,
  slot smallint not null check (slot between 0 and 15),
  object_id uuid,
  total int not null default 0,
  current int not null default 0,
  failed int not null default 0,
  held int not null default 0,
  drifted int not null default 0,
  silent int not null default 0,
  healthy int not null default 0,
  degraded int not null default 0,
  failing int not null default 0,
  oldest_seen_at timestamptz,
  primary key (stack_id, slot)
) with (fillfactor = 50);

create function summary_slot(agent uuid) returns smallint language sql immutable strict parallel safe as $$
  select (get_byte(uuid_send(agent), 15) & 15)::smallint
$$;

-- What one target adds and subtracts. The objects are those it was and is current with; the last field is set when silence is involved.
create type summary_delta as (
  stack_id uuid, slot smallint, old_object uuid, new_object uuid, total int, failed int, held int, drifted int,
  silent int, healthy int, degraded int, failing int, is_seen_changed boolean
);

-- The object a target is current with: applied, or removed where the object is a deletion marker.
create function current_object(phase text, object_id uuid) returns uuid language sql immutable parallel safe as $$
  select case when phase in ('applied', 'removed') then object_id end
$$;
create function is_drifted(code text) returns int language sql immutable parallel safe as $$
  select case when code in ('drifted', 'drift_fight') then 1 else 0 end
$$;
create function summary_add(deltas summary_delta[]) returns void language plpgsql set search_path from current as $$
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

-- What targets that begin (sign 1) or end (sign -1) contribute. Status rows are locked first, so that a report comes before or after.
create function count_pairs(agents uuid[], stack_ids uuid[], healths text[], sign int) returns summary_delta[] language plpgsql set search_path from current as $$
begin
  perform from agent_stack_status s where (s.agent_id, s.stack_id) in (select * from unnest(agents, stack_ids))
    order by s.stack_id, s.agent_id for no key update;
  return (select array_agg(row(p.stack_id, summary_slot(p.agent_id),
      case when sign < 0 then current_object(s.phase, s.object_id) end, case when sign > 0 then current_object(s.phase, s.object_id) end, sign,
      sign * (s.phase is not distinct from 'failed')::int, sign * (s.phase is not distinct from 'held')::int, sign * is_drifted(s.code),
      sign * q.silent, sign * (1 - q.silent) * (p.health is not distinct from 'healthy')::int,
      sign * (1 - q.silent) * (p.health is not distinct from 'degraded')::int,
      sign * (1 - q.silent) * (p.health is not distinct from 'failing')::int, q.silent = 1)::summary_delta)
    from unnest(agents, stack_ids, healths) as p (agent_id, stack_id, health)
    join agents a on a.id = p.agent_id
    cross join lateral (select (a.connection_state = 'disconnected')::int as silent) q
    left join agent_stack_status s on s.agent_id = p.agent_id and s.stack_id = p.stack_id);
end $$;

-- The names sort before those of the feed's triggers, which write the status of targets that begin and end.
create function count_targets_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into stack_summary (stack_id, slot, object_id)
    select distinct n.stack_id, summary_slot(n.agent_id), k.head_object_id from new_rows n join stacks k on k.id = n.stack_id
    order by 1, 2 on conflict do nothing;
  perform summary_add(count_pairs(array_agg(agent_id), array_agg(stack_id), array_agg(health), 1)) from new_rows having count(*) > 0;
  return null;
end $$;
create function count_targets_delete() returns trigger language plpgsql set search_path from current as $$
begin
  perform summary_add(count_pairs(array_agg(agent_id), array_agg(stack_id), array_agg(health), -1)) from old_rows having count(*) > 0;
  return null;
end $$;
create function count_targets_update() returns trigger language plpgsql set search_path from current as $$
begin
  perform summary_add(array_agg(row(n.stack_id, summary_slot(n.agent_id), null, null, 0, 0, 0, 0, 0,
      (n.health = 'healthy')::int - (o.health is not distinct from 'healthy')::int,
      (n.health = 'degraded')::int - (o.health is not distinct from 'degraded')::int,
      (n.health = 'failing')::int - (o.health is not distinct from 'failing')::int, false)::summary_delta))
    from old_rows o join new_rows n using (id) join agents a on a.id = n.agent_id
    where n.health is distinct from o.health and a.connection_state <> 'disconnected' having count(*) > 0;
  return null;
end $$;
create trigger count_insert after insert on agent_targets referencing new table as new_rows for each statement execute function count_targets_insert();
create trigger count_delete after delete on agent_targets referencing old table as old_rows for each statement execute function count_targets_delete();
create trigger count_update after update on agent_targets referencing old table as old_rows new table as new_rows for each statement execute function count_targets_update();

create function count_status_insert() returns trigger language plpgsql set search_path from current as $$
begin
  perform summary_add(array_agg(row(n.stack_id, summary_slot(n.agent_id), null, current_object(n.phase, n.object_id), 0,
      (n.phase = 'failed')::int, (n.phase = 'held')::int, is_drifted(n.code), 0, 0, 0, 0, false)::summary_delta))
    from new_rows n join agent_targets t on t.agent_id = n.agent_id and t.stack_id = n.stack_id having count(*) > 0;
  return null;
end $$;
create function count_status_update() returns trigger language plpgsql set search_path from current as $$
begin
  perform summary_add(array_agg(row(n.stack_id, summary_slot(n.agent_id), current_object(o.phase, o.object_id), current_object(n.phase, n.object_id), 0,
      (n.phase = 'failed')::int - (o.phase = 'failed')::int, (n.phase = 'held')::int - (o.phase = 'held')::int,
      is_drifted(n.code) - is_drifted(o.code), 0, 0, 0, 0, false)::summary_delta))
    from old_rows o join new_rows n using (agent_id, stack_id) join agent_targets t on t.agent_id = n.agent_id and t.stack_id = n.stack_id
    where (n.phase, n.object_id, n.code) is distinct from (o.phase, o.object_id, o.code) having count(*) > 0;
  return null;
end $$;
create trigger count_insert after insert on agent_stack_status referencing new table as new_rows for each statement execute function count_status_insert();
create trigger count_update after update on agent_stack_status referencing old table as old_rows new table as new_rows for each statement execute function count_status_update();

-- Silence is a transition, so heartbeats change nothing. An agent that falls silent or returns holds its row FOR UPDATE: none of its
-- targets begins or ends meanwhile.
create function count_agents_update() returns trigger language plpgsql set search_path from current as $$
begin
  perform summary_add(array_agg(row(t.stack_id, summary_slot(n.id), null, null, 0, 0, 0, 0, c.sign,
      -c.sign * (t.health is not distinct from 'healthy')::int, -c.sign * (t.health is not distinct from 'degraded')::int,
      -c.sign * (t.health is not distinct from 'failing')::int, true)::summary_delta))
    from old_rows o join new_rows n using (id) join agent_targets t on t.agent_id = n.id
    cross join lateral (select (n.connection_state = 'disconnected')::int - (o.connection_state = 'disconnected')::int as sign) c
    where c.sign <> 0 having count(*) > 0;
  return null;
end $$;
create trigger count_update after update on agents referencing old table as old_rows new table as new_rows for each statement execute function count_agents_update();

-- The same counts from the targets themselves; the stored counts must be equal.
create view stack_summary_counted as
  select t.stack_id, summary_slot(t.agent_id) as slot, k.head_object_id as object_id, count(*)::int as total,
    (count(*) filter (where current_object(s.phase, s.object_id) = k.head_object_id))::int as current,
    (count(*) filter (where s.phase = 'failed'))::int as failed, (count(*) filter (where s.phase = 'held'))::int as held,
    coalesce(sum(is_drifted(s.code)), 0)::int as drifted, (count(*) filter (where q.silent))::int as silent,
    (count(*) filter (where not q.silent and t.health = 'healthy'))::int as healthy,
    (count(*) filter (where not q.silent and t.health = 'degraded'))::int as degraded,
    (count(*) filter (where not q.silent and t.health = 'failing'))::int as failing,
    min(l.last_seen_at) filter (where q.silent) as oldest_seen_at
  from agent_targets t join stacks k on k.id = t.stack_id join agents a on a.id = t.agent_id
  cross join lateral (select a.connection_state = 'disconnected' as silent) q
  left join agent_liveness l on l.agent_id = a.id
  left join agent_stack_status s on s.agent_id = t.agent_id and s.stack_id = t.stack_id
  group by t.stack_id, summary_slot(t.agent_id), k.head_object_id;
