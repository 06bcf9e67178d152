-- Audit log. Append-only: the database refuses update and delete; old months are dropped as whole partitions.

create table audit_logs (
  id uuid not null,
  timestamp timestamptz not null default now(),
  actor_type text not null,
  actor_id uuid,
  action text not null,
  resource_type text not null,
  resource_id uuid,
  details jsonb,
  ip_address text,
  user_agent text,
  created_at timestamptz not null default now(),
  primary key (timestamp, id)
) partition by range (timestamp);
create index audit_logs_newest on audit_logs (timestamp desc, id);
create index audit_logs_by_actor on audit_logs (actor_type, actor_id, timestamp desc);
create index audit_logs_by_resource on audit_logs (resource_type, resource_id, timestamp desc);
create index audit_logs_by_action on audit_logs (action text_pattern_ops, timestamp desc);
-- An insert never fails because a month has no partition: such rows go here, and the clean-up finds them.
create table audit_logs_default partition of audit_logs default;

create function make_audit_partition(month date) returns void language plpgsql set search_path from current as $$
declare
  first_day date := date_trunc('month', month);
  partition_name text := 'audit_logs_' || to_char(first_day, 'YYYYMM');
begin
  if to_regclass(partition_name) is null then
    execute format('create table %I partition of audit_logs for values from (%L) to (%L)', partition_name,
      first_day::timestamp at time zone 'utc', (first_day + interval '1 month')::timestamp at time zone 'utc');
  end if;
end $$;
select make_audit_partition((now() at time zone 'utc')::date), make_audit_partition((now() at time zone 'utc' + interval '1 month')::date);

-- The only way to remove audit rows: whole months that ended before `keep_from`.
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

create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'audit rows are append-only' using errcode = 'BK002';
end $$;
create trigger audit_logs_append_only before update or delete on audit_logs for each row execute function refuse_audit_change();
create trigger audit_logs_no_truncate before truncate on audit_logs for each statement execute function refuse_audit_change();
