-- Background tasks: who runs which one now (a lease by database time) and how the last run went; what they need to find old
-- rows; and the requests to read the configuration again, which every process follows.

create table task_leases (
  name text primary key,
  owner text not null,
  lease_until timestamptz not null,
  last_run_at timestamptz,
  last_result jsonb,
  last_error text
);

create table config_reloads (
  id uuid primary key,
  requested_by text not null,
  created_at timestamptz not null default now()
);
create function feed_config_reloads() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'control', '00000000-0000-0000-0000-000000000000', 'config', id, 'insert' from new_rows;
  return null;
end $$;
create trigger feed_insert after insert on config_reloads referencing new table as new_rows for each statement execute function feed_config_reloads();

create index agent_object_acks_by_age on agent_object_acks (last_at);
create index agent_stack_status_removed_by_age on agent_stack_status (received_at) where phase = 'removed';
create index agents_connected on agents (id) where connection_state = 'connected' and deleted_at is null;

-- The only way audit rows go: whole months that have ended before `keep_from`.
create function drop_audit_partitions(keep_from timestamptz) returns int language plpgsql set search_path from current as $$
declare
  part record;
  dropped int := 0;
begin
  for part in
    select c.relname as name, to_date(substr(c.relname, 12), 'YYYYMM') as month
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'audit_logs'::regclass and c.relname ~ '^audit_logs_[0-9]{6}$'
  loop
    if ((part.month + interval '1 month')::timestamp at time zone 'utc') <= keep_from then
      execute format('drop table %I', part.name);
      dropped := dropped + 1;
    end if;
  end loop;
  return dropped;
end $$;
