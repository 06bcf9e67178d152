-- The change feed. Rows are pointers written by statement triggers, so that no write path can forget them; the xid of the
-- writing transaction is what a cursor (a database snapshot) is compared with. Never set xid by hand.

create table change_log (
  seq bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  scope_kind text not null,
  scope_id uuid not null,
  object_kind text not null,
  object_id uuid,
  op text not null check (op in ('insert', 'update', 'delete')),
  created_at timestamptz not null default clock_timestamp()
);
create index change_log_by_xid on change_log (xid);
create index change_log_by_scope on change_log (scope_kind, scope_id, xid);

create table feed_state (
  only_row boolean primary key default true check (only_row),
  epoch uuid not null,
  system_identifier bigint not null,
  timeline int not null,
  floor_xid xid8 not null,
  cursor_key bytea not null check (octet_length(cursor_key) = 32)
);
insert into feed_state (epoch, system_identifier, timeline, floor_xid, cursor_key)
select gen_random_uuid(), s.system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int, '0',
       decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
from pg_control_system() s;

create table feed_marks (taken_at timestamptz primary key, low_xid xid8 not null);

-- Stacks: what agents must see (stack), what only lists show (stack_status).
create function feed_stacks_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', id, 'stack', id, 'insert' from new_rows union all select 'generator', generator_id, 'stack', id, 'insert' from new_rows;
  return null;
end $$;
create function feed_stacks_update() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from old_rows o join new_rows n using (id)
             where ((n.name, n.drift) is distinct from (o.name, o.drift) or n.deleted_at is distinct from o.deleted_at)
               and n.last_sequence <= o.last_sequence) then
    raise exception 'a change of name, drift or deleted_at of a stack must take a number' using errcode = 'BK003';
  end if;
  if exists (select from old_rows o join new_rows n using (id) where n.last_sequence < o.last_sequence) then
    raise exception 'the number of a stack never falls' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select scope.kind, scope.id, 'stack', n.id, 'update'
    from old_rows o join new_rows n using (id)
    cross join lateral (select (n.name, n.drift) is distinct from (o.name, o.drift) or n.deleted_at is distinct from o.deleted_at as wanted,
                               n.description is distinct from o.description as shown) changed
    cross join lateral (values ('stack', n.id, changed.wanted), ('stack_status', n.id, changed.shown and not changed.wanted),
                               ('generator', n.generator_id, changed.wanted or changed.shown)) scope (kind, id, applies)
    where scope.applies;
  return null;
end $$;
create trigger feed_insert after insert on stacks referencing new table as new_rows for each statement execute function feed_stacks_insert();
create trigger feed_update after update on stacks referencing old table as old_rows new table as new_rows for each statement execute function feed_stacks_update();

-- Labels and annotations of stacks: agents need not wake, targeting does it for them.
create function feed_stack_marks() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct scope.kind, scope.id, 'stack', s.id, 'update' from changed_rows c join stacks s on s.id = c.stack_id
    cross join lateral (values ('stack_status', s.id), ('generator', s.generator_id)) scope (kind, id);
  return null;
end $$;

-- Deployment objects: the number must be the one this transaction took from the stack.
create function feed_objects_insert() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from new_rows n left join stacks s on s.id = n.stack_id and s.last_sequence = n.sequence_id and s.sequence_xid = pg_current_xact_id()
             where s.id is null) then
    raise exception 'a deployment object must carry the number its transaction took from the stack' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'stack', stack_id, 'deployment_object', id, 'insert' from new_rows;
  return null;
end $$;
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
create trigger feed_insert after insert on deployment_objects referencing new table as new_rows for each statement execute function feed_objects_insert();
create trigger feed_update after update on deployment_objects referencing old table as old_rows new table as new_rows for each statement execute function feed_objects_update();

-- Targets. An ended pair leaves a status row that says the removal is due, until the agent reports it done.
create function feed_targets_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'insert' from new_rows union all select 'stack_status', stack_id, 'target', agent_id, 'insert' from new_rows;
  update agent_stack_status s set code = 'applying' from new_rows n
    where s.agent_id = n.agent_id and s.stack_id = n.stack_id and s.phase = 'pending' and s.code = 'removing';
  return null;
end $$;
create function feed_targets_delete() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'delete' from old_rows union all select 'stack_status', stack_id, 'target', agent_id, 'delete' from old_rows;
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, phase, code)
    select o.agent_id, o.stack_id, f.epoch, k.last_sequence, 'pending', 'removing' from old_rows o join stacks k on k.id = o.stack_id cross join feed_state f
    on conflict (agent_id, stack_id) do update set phase = 'pending', code = 'removing', message = null where s.phase <> 'removed';
  return null;
end $$;
create trigger feed_insert after insert on agent_targets referencing new table as new_rows for each statement execute function feed_targets_insert();
create trigger feed_delete after delete on agent_targets referencing old table as old_rows for each statement execute function feed_targets_delete();

-- Agents; a changed key or deletion also wakes every process (control), whose caches and streams must let go.
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

-- Generators and admin keys: scope `generator` for lists, `control` when a credential or its reach changed.
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

-- Reports: what a page about the stack shows.
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

-- The same function serves every event of these side tables; a transition table has one name per trigger.
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
