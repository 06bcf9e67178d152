-- How what was deployed is doing, as agents see it: one record per agent and revision, and on each pair the newest of its stack, so
-- that nobody has to look for it.

create table deployment_health (
  id uuid primary key,
  agent_id uuid not null references agents,
  deployment_object_id uuid not null constraint deployment_health_deployment_object_id_fkey references deployment_objects,
  status text not null check (status in ('healthy', 'degraded', 'failing', 'unknown')),
  summary text,
  checked_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint unique_agent_object_health unique (agent_id, deployment_object_id)
);
create index deployment_health_by_object on deployment_health (deployment_object_id);

alter table agent_targets
  add column health text check (health in ('healthy', 'degraded', 'failing', 'unknown')),
  add column health_at timestamptz;

-- Pairs are locked in one order for everybody before they are written. A record that says what the pair says already writes nothing.
create function note_pair_health(agents uuid[], objects uuid[]) returns void language plpgsql set search_path from current as $$
begin
  perform from agent_targets t
    where (t.agent_id, t.stack_id) in (
      select w.agent_id, o.stack_id from unnest(agents, objects) as w (agent_id, object_id) join deployment_objects o on o.id = w.object_id)
    order by t.stack_id, t.agent_id for no key update;
  update agent_targets t set health = n.status, health_at = n.checked_at
    from (select distinct on (h.agent_id, o.stack_id) h.agent_id, o.stack_id, h.status, h.checked_at
          from unnest(agents, objects) as w (agent_id, object_id)
          join deployment_health h on h.agent_id = w.agent_id and h.deployment_object_id = w.object_id
          join deployment_objects o on o.id = h.deployment_object_id
          order by h.agent_id, o.stack_id, h.checked_at desc, o.sequence_id desc) n
    where t.agent_id = n.agent_id and t.stack_id = n.stack_id and t.health is distinct from n.status
      and (t.health_at is null or n.checked_at >= t.health_at);
end $$;

create function feed_health_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', o.stack_id, 'health', n.agent_id, 'insert' from new_rows n join deployment_objects o on o.id = n.deployment_object_id;
  perform note_pair_health(array_agg(agent_id), array_agg(deployment_object_id)) from new_rows having count(*) > 0;
  return null;
end $$;
create function feed_health_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', o.stack_id, 'health', n.agent_id, 'update'
    from old_rows b join new_rows n using (id) join deployment_objects o on o.id = n.deployment_object_id where n.status <> b.status;
  perform note_pair_health(array_agg(agent_id), array_agg(deployment_object_id)) from new_rows having count(*) > 0;
  return null;
end $$;
create trigger feed_insert after insert on deployment_health referencing new table as new_rows for each statement execute function feed_health_insert();
create trigger feed_update after update on deployment_health referencing old table as old_rows new table as new_rows for each statement execute function feed_health_update();
