-- The change feed. Rows are pointers written by triggers, so that no write path can forget them. A cursor (a database snapshot) is
-- compared with the xid of the writing transaction; xid is never set by hand.

-- One index finds rows by transaction and within it by number. `op` has no check: PostgreSQL would parse it again for every statement,
-- and all rows come from the functions below, which write literals.
create table change_log (
  seq bigint generated always as identity,
  xid xid8 not null default pg_current_xact_id(),
  scope_kind text not null,
  scope_id uuid not null,
  object_kind text not null,
  object_id uuid,
  op text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (xid, seq)
);
-- Only agents that resume with an old cursor look up rows by scope, and only their own rows.
create index change_log_by_agent on change_log (scope_id, xid) where scope_kind = 'agent';

create table feed_state (
  only_row boolean primary key default true check (only_row),
  epoch uuid not null,
  system_identifier bigint not null,
  timeline int not null,
  floor_xid xid8 not null,
  cursor_key bytea not null check (octet_length(cursor_key) = 32),
  -- Null until a broker has recorded the running server.
  boot uuid
);
insert into feed_state (epoch, system_identifier, timeline, floor_xid, cursor_key)
select gen_random_uuid(), s.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int, '0',
       decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
from pg_control_system() s;

create table feed_marks (taken_at timestamptz primary key, low_xid xid8 not null);

-- Starts of the database server. A restored backup keeps system identifier and timeline and assigns transaction ids again that were
-- lost, but it needs a start of the server: a cursor names its boot, and one that saw more than its boot left behind is of another epoch.
-- A loaded dump or a copied database shows by its row here: its xid or its database differs.
create table feed_boots (
  boot uuid primary key,
  server_started_at timestamptz not null,
  database_oid oid not null,
  written_xid xid8 not null,
  -- The first transaction that none of its cursors can have seen; null while it runs.
  ended_xid xid8,
  noticed_at timestamptz not null default now()
);

-- Stacks. Agents read changes of scope `stack`, lists those of `stack_status`.
create function feed_stacks_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', id, 'stack', id, 'insert' from new_rows union all select 'generator', generator_id, 'stack', id, 'insert' from new_rows;
  return null;
end $$;
create trigger feed_insert after insert on stacks referencing new table as new_rows for each statement execute function feed_stacks_insert();
-- The trigger names columns instead of a condition: PostgreSQL would parse the text of a condition again for every statement. A submission
-- sets none of these columns.
create function feed_stack_update() returns trigger language plpgsql set search_path from current as $$
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
-- The sequence number never falls. The number that a transaction took is noted for feed_object_insert, which then needs no query.
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
create function feed_stack_marks() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct scope.kind, scope.id, 'stack', s.id, 'update' from changed_rows c join stacks s on s.id = c.stack_id
    cross join lateral (values ('stack_status', s.id), ('generator', s.generator_id)) scope (kind, id);
  return null;
end $$;

-- A deployment object is its own row of the feed. It must carry the number that its transaction took, be the head of its stack and name
-- its own transaction. The note of feed_stack_number proves that, or else the stack row: one transaction may take several numbers, and one
-- statement may take the number and insert the object before anything is noted. Tables are named with their schema, as in 0002.
do $do$
begin
  execute format($create$
create function feed_object_insert() returns trigger language plpgsql as $body$
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
create trigger feed_insert before insert on deployment_objects for each row execute function feed_object_insert();
create function feed_objects_update() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from old_rows o join new_rows n using (id) left join stacks s on s.id = n.stack_id and s.sequence_xid = pg_current_xact_id()
             where n.deleted_at is distinct from o.deleted_at and s.id is null) then
    raise exception 'deleting a deployment object must take a number' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', n.stack_id, 'deployment_object', n.id, 'update' from old_rows o join new_rows n using (id) where n.deleted_at is distinct from o.deleted_at;
  return null;
end $$;
create trigger feed_update after update on deployment_objects referencing old table as old_rows new table as new_rows for each statement execute function feed_objects_update();

-- Targets. A target that begins again starts anew, whatever its status was. One that ends needs a removal, unless a removal was
-- reported and no deployment object followed.
create function feed_targets_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'insert' from new_rows union all select 'stack_status', stack_id, 'target', agent_id, 'insert' from new_rows;
  update agent_stack_status s set phase = 'pending', code = 'applying', message = null from new_rows n
    where s.agent_id = n.agent_id and s.stack_id = n.stack_id;
  return null;
end $$;
create function feed_targets_delete() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'delete' from old_rows union all select 'stack_status', stack_id, 'target', agent_id, 'delete' from old_rows;
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, phase, code)
    select o.agent_id, o.stack_id, f.epoch, k.last_sequence, 'pending', 'removing' from old_rows o join stacks k on k.id = o.stack_id cross join feed_state f
    on conflict (agent_id, stack_id) do update set phase = 'pending', code = 'removing', message = null
      where s.phase <> 'removed' or removal_is_past(s.stack_id, s.rev, s.object_id);
  return null;
end $$;
create trigger feed_insert after insert on agent_targets referencing new table as new_rows for each statement execute function feed_targets_insert();
create trigger feed_delete after delete on agent_targets referencing old table as old_rows for each statement execute function feed_targets_delete();

-- Agents, generators and admin PAKs. Changes of PAKs are control rows, which every broker process reads.
create function feed_agents_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'agent', id, 'agent', id, 'insert' from new_rows;
  return null;
end $$;
create function feed_agents_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select scope.kind, scope.id, 'agent', n.id, 'update' from old_rows o join new_rows n using (id)
    cross join lateral (select n.pak_hash is distinct from o.pak_hash or n.deleted_at is distinct from o.deleted_at as credential,
                               (n.name, n.cluster_name, n.status) is distinct from (o.name, o.cluster_name, o.status) as shown) changed
    cross join lateral (values ('agent', n.id, changed.credential or changed.shown),
                               ('control', '00000000-0000-0000-0000-000000000000'::uuid, changed.credential)) scope (kind, id, applies)
    where scope.applies;
  return null;
end $$;
create trigger feed_insert after insert on agents referencing new table as new_rows for each statement execute function feed_agents_insert();
create trigger feed_update after update on agents referencing old table as old_rows new table as new_rows for each statement execute function feed_agents_update();
create function feed_agent_marks() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select distinct 'agent', agent_id, 'agent', agent_id, 'update' from changed_rows;
  return null;
end $$;
create function feed_registrations() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'agent', agent_id, 'agent', agent_id, 'update' from changed_rows
    union all select 'generator', generator_id, 'registration', agent_id, 'update' from changed_rows;
  return null;
end $$;
create function feed_generators_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'generator', id, 'generator', id, 'insert' from new_rows;
  return null;
end $$;
create function feed_generators_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select scope.kind, scope.id, 'generator', n.id, 'update' from old_rows o join new_rows n using (id)
    cross join lateral (select n.pak_hash is distinct from o.pak_hash or n.deleted_at is distinct from o.deleted_at or n.is_active <> o.is_active as credential,
                               n.name is distinct from o.name as shown) changed
    cross join lateral (values ('generator', n.id, changed.credential or changed.shown),
                               ('control', '00000000-0000-0000-0000-000000000000'::uuid, changed.credential)) scope (kind, id, applies)
    where scope.applies;
  return null;
end $$;
create trigger feed_insert after insert on generators referencing new table as new_rows for each statement execute function feed_generators_insert();
create trigger feed_update after update on generators referencing old table as old_rows new table as new_rows for each statement execute function feed_generators_update();
create function feed_admin_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'control', '00000000-0000-0000-0000-000000000000', 'admin', n.id, 'update' from old_rows o join new_rows n using (id)
    where (n.name, n.pak_hash, n.readonly) is distinct from (o.name, o.pak_hash, o.readonly) or n.scope is distinct from o.scope
       or n.expires_at is distinct from o.expires_at or n.deleted_at is distinct from o.deleted_at;
  return null;
end $$;
create trigger feed_update after update on admin_role referencing old table as old_rows new table as new_rows for each statement execute function feed_admin_update();

-- Reports, for pages about a stack.
create function feed_status_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select distinct 'stack_status', stack_id, 'status', agent_id, 'insert' from new_rows;
  return null;
end $$;
create function feed_status_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', n.stack_id, 'status', n.agent_id, 'update' from old_rows o join new_rows n using (agent_id, stack_id)
    where (n.phase, n.rev) is distinct from (o.phase, o.rev) or n.code is distinct from o.code or n.object_id is distinct from o.object_id;
  return null;
end $$;
create trigger feed_insert after insert on agent_stack_status referencing new table as new_rows for each statement execute function feed_status_insert();
create trigger feed_update after update on agent_stack_status referencing old table as old_rows new table as new_rows for each statement execute function feed_status_update();
create function feed_events_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select distinct 'stack_status', stack_id, 'agent_event', null::uuid, 'insert' from new_rows;
  return null;
end $$;
create trigger feed_insert after insert on agent_events referencing new table as new_rows for each statement execute function feed_events_insert();

-- Health. Targets are locked in one order before they are written. A record that equals the target writes nothing.
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

-- One function serves every event of these tables; a transition table has one name per trigger.
do $$
declare side record;
begin
  for side in select * from (values ('stack_labels', 'feed_stack_marks'), ('stack_annotations', 'feed_stack_marks'), ('agent_labels', 'feed_agent_marks'),
                                    ('agent_annotations', 'feed_agent_marks'), ('agent_generator_registrations', 'feed_registrations')) t (name, fn) loop
    execute format('create trigger feed_insert after insert on %I referencing new table as changed_rows for each statement execute function %I()', side.name, side.fn);
    execute format('create trigger feed_update after update on %I referencing new table as changed_rows for each statement execute function %I()', side.name, side.fn);
    execute format('create trigger feed_delete after delete on %I referencing old table as changed_rows for each statement execute function %I()', side.name, side.fn);
  end loop;
end $$;

-- Rows that agents follow are never removed by accident: only with `set local brokkr.purge = 'on'`.
create function refuse_purge() returns trigger language plpgsql as $$
begin
  if current_setting('brokkr.purge', true) = 'on' then
    return null;
  end if;
  raise exception '% of % is refused: rows are marked deleted, never removed', tg_op, tg_table_name using errcode = 'BK004';
end $$;
do $$
declare guarded text;
begin
  foreach guarded in array array['agents', 'stacks', 'deployment_objects'] loop
    execute format('create trigger refuse_delete before delete on %I for each statement execute function refuse_purge()', guarded);
    execute format('create trigger refuse_truncate before truncate on %I for each statement execute function refuse_purge()', guarded);
  end loop;
  execute 'create trigger refuse_truncate before truncate on agent_targets for each statement execute function refuse_purge()';
end $$;
