-- Who did what. Append-only: the database refuses update and delete; old months go as whole partitions.

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
-- An insert must never fail for want of a month: what no partition covers lands here and is found by the clean-up.
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

create function refuse_audit_change() returns trigger language plpgsql as $$
begin
  raise exception 'audit rows are append-only' using errcode = 'BK002';
end $$;
create trigger audit_logs_append_only before update or delete on audit_logs for each row execute function refuse_audit_change();
create trigger audit_logs_no_truncate before truncate on audit_logs for each statement execute function refuse_audit_change();
