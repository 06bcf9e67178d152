-- Holds. A hold pins a stack to one of its deployment objects: agents get that object while later ones wait. The object a stack wants is
-- coalesce(held_object_id, head_object_id); head_object_id stays the newest one.

alter table stacks add column held_sequence bigint, add column held_object_id uuid;
-- Both columns are set together, and a deleted stack has no hold. Validated by the next migration.
alter table stacks add constraint stacks_hold_complete
  check ((held_sequence is null) = (held_object_id is null) and (deleted_at is null or held_object_id is null)) not valid;

create table holds (
  stack_id uuid primary key references stacks,
  sequence_id bigint not null,
  reason text not null check (char_length(reason) between 1 and 1024),
  by_kind text not null,
  by_id uuid,
  created_at timestamptz not null default now()
);
do $$
declare event text;
begin
  foreach event in array array['insert', 'update', 'delete'] loop
    execute format('create trigger feed_%s after %s on holds referencing %s table as changed_rows for each statement execute function feed_stack_marks()',
      event, event, case event when 'delete' then 'old' else 'new' end);
  end loop;
end $$;

-- A bound that changes the wanted object takes a number like name and drift, so that the rev of frames rises and a resuming agent finds
-- the change. A hold on the object that is wanted already takes none; the triggers on holds report it.
create or replace function feed_stack_update() returns trigger language plpgsql set search_path from current as $$
declare
  is_bound_moved boolean := new.held_object_id is distinct from old.held_object_id
    and coalesce(new.held_object_id, new.head_object_id) is distinct from coalesce(old.held_object_id, old.head_object_id);
  is_wanted boolean := (new.name, new.drift) is distinct from (old.name, old.drift) or new.deleted_at is distinct from old.deleted_at or is_bound_moved;
begin
  if not is_wanted and new.description is not distinct from old.description then
    return null;
  end if;
  if is_wanted and (new.last_sequence <= old.last_sequence or new.sequence_xid <> pg_current_xact_id()) then
    raise exception 'a change of name, drift, deleted_at or held object of a stack must take a number' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    values (case when is_wanted then 'stack' else 'stack_status' end, new.id, 'stack', new.id, 'update'),
           ('generator', new.generator_id, 'stack', new.id, 'update');
  return null;
end $$;
create or replace trigger feed_update after update of name, drift, deleted_at, description, held_object_id on stacks
  for each row execute function feed_stack_update();

-- A reported removal is past once the stack wants a deployment object again that followed it. Objects that wait behind a hold do not count:
-- no agent has received them. Of a removal by a deletion marker the marker's number decides, because `rev` rises while objects wait.
do $do$
begin
  execute format($create$
create or replace function removal_is_past(of_stack uuid, at_rev bigint, with_object uuid) returns boolean language sql stable as $body$
  select not exists (select from %1$I.stacks k where k.id = of_stack and k.last_sequence >= at_rev)
    or exists (select from %1$I.stacks k join %1$I.deployment_objects d on d.stack_id = k.id and not d.is_deletion_marker
               left join %1$I.deployment_objects o on o.id = with_object
               where k.id = of_stack and d.sequence_id <= coalesce(k.held_sequence, d.sequence_id)
                 and d.sequence_id > case when o.is_deletion_marker then o.sequence_id else greatest(at_rev, o.sequence_id) end)
$body$
  $create$, current_schema());
end $do$;

-- The stored counts follow the wanted object. Only the expression for it differs from 0006 and 0007.
create or replace function summary_add(deltas summary_delta[]) returns void language plpgsql set search_path from current as $$
begin
  if coalesce(cardinality(deltas), 0) = 0 then
    return;
  end if;
  perform from stack_summary s where (s.stack_id, s.slot) in (select d.stack_id, d.slot from unnest(deltas) d)
    order by s.stack_id, s.slot for no key update;
  update stack_summary s set
      object_id = d.wanted, current = case when s.object_id = d.wanted then s.current else 0 end + d.current,
      total = s.total + d.total, failed = s.failed + d.failed, held = s.held + d.held,
      drifted = s.drifted + d.drifted, silent = s.silent + d.silent, healthy = s.healthy + d.healthy,
      degraded = s.degraded + d.degraded, failing = s.failing + d.failing,
      oldest_seen_at = case when not d.is_seen_changed then s.oldest_seen_at when s.silent + d.silent <= 0 then null else (
        select min(l.last_seen_at) from agent_targets t join agents a on a.id = t.agent_id join agent_liveness l on l.agent_id = a.id
        where t.stack_id = s.stack_id and summary_slot(t.agent_id) = s.slot and a.connection_state = 'disconnected') end
    from (select x.stack_id, x.slot, w.wanted, sum(x.total) as total, sum(x.failed) as failed, sum(x.held) as held,
                 sum(x.drifted) as drifted, sum(x.silent) as silent, sum(x.healthy) as healthy, sum(x.degraded) as degraded,
                 sum(x.failing) as failing, bool_or(x.is_seen_changed) as is_seen_changed,
                 count(*) filter (where x.new_object = w.wanted)
                   - count(*) filter (where x.old_object = w.wanted and c.object_id = w.wanted) as current
          from unnest(deltas) x join stacks k on k.id = x.stack_id join stack_summary c on c.stack_id = x.stack_id and c.slot = x.slot
          cross join lateral (select coalesce(k.held_object_id, k.head_object_id) as wanted) w
          group by x.stack_id, x.slot, w.wanted) d
    where s.stack_id = d.stack_id and s.slot = d.slot;
end $$;

create or replace function count_targets_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into stack_summary (stack_id, slot, object_id)
    select distinct n.stack_id, summary_slot(n.agent_id), coalesce(k.held_object_id, k.head_object_id) from new_rows n join stacks k on k.id = n.stack_id
    order by 1, 2 on conflict do nothing;
  perform summary_add(count_pairs(array_agg(agent_id), array_agg(stack_id), array_agg(health), 1)) from new_rows having count(*) > 0;
  return null;
end $$;

create or replace function write_targets(changes target_change[]) returns void language plpgsql set search_path from current as $$
begin
  perform from agent_targets t where t.id in (select c.id from unnest(changes) c) order by t.stack_id, t.agent_id for update;
  perform from agent_stack_status s where (s.agent_id, s.stack_id) in (select c.agent_id, c.stack_id from unnest(changes) c)
    order by s.stack_id, s.agent_id for no key update;
  insert into stack_summary (stack_id, slot, object_id)
    select distinct c.stack_id, summary_slot(c.agent_id), coalesce(k.held_object_id, k.head_object_id) from unnest(changes) c join stacks k on k.id = c.stack_id
    where c.id is null order by 1, 2 on conflict do nothing;
  perform from stack_summary m where (m.stack_id, m.slot) in (select c.stack_id, summary_slot(c.agent_id) from unnest(changes) c)
    order by m.stack_id, m.slot for no key update;
  delete from agent_targets t using unnest(changes) c where t.id = c.id and c.is_ended;
  insert into agent_targets (id, agent_id, stack_id, by_label, by_annotation)
    select gen_random_uuid(), c.agent_id, c.stack_id, c.by_label, c.by_annotation from unnest(changes) c where c.id is null;
  update agent_targets t set by_label = c.by_label, by_annotation = c.by_annotation from unnest(changes) c where t.id = c.id and not c.is_ended;
end $$;

create or replace view stack_summary_counted as
  select t.stack_id, summary_slot(t.agent_id) as slot, w.object_id, count(*)::int as total,
    (count(*) filter (where current_object(s.phase, s.object_id) = w.object_id))::int as current,
    (count(*) filter (where s.phase = 'failed'))::int as failed, (count(*) filter (where s.phase = 'held'))::int as held,
    coalesce(sum(is_drifted(s.code)), 0)::int as drifted, (count(*) filter (where q.silent))::int as silent,
    (count(*) filter (where not q.silent and t.health = 'healthy'))::int as healthy,
    (count(*) filter (where not q.silent and t.health = 'degraded'))::int as degraded,
    (count(*) filter (where not q.silent and t.health = 'failing'))::int as failing,
    min(l.last_seen_at) filter (where q.silent) as oldest_seen_at
  from agent_targets t join stacks k on k.id = t.stack_id join agents a on a.id = t.agent_id
  cross join lateral (select coalesce(k.held_object_id, k.head_object_id) as object_id) w
  cross join lateral (select a.connection_state = 'disconnected' as silent) q
  left join agent_liveness l on l.agent_id = a.id
  left join agent_stack_status s on s.agent_id = t.agent_id and s.stack_id = t.stack_id
  group by t.stack_id, summary_slot(t.agent_id), w.object_id;

-- After the bound of a stack moved. A report waits for the locks or was counted before; then every row is counted for the wanted object.
create function recount_current(of_stack uuid) returns void language plpgsql set search_path from current as $$
begin
  perform from stack_summary s where s.stack_id = of_stack order by s.slot for no key update;
  update stack_summary s set object_id = coalesce(k.held_object_id, k.head_object_id), current = coalesce(c.current, 0)
    from stacks k, stack_summary m left join stack_summary_counted c on c.stack_id = m.stack_id and c.slot = m.slot
    where s.stack_id = of_stack and k.id = of_stack and m.stack_id = s.stack_id and m.slot = s.slot;
end $$;
