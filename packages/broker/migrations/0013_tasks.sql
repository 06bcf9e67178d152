-- Background tasks: which process runs which task (a lease by database time) and the result of the last run. Requests to reload the
-- configuration, which every process reads.

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
