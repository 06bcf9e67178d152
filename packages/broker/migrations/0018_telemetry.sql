-- Kubernetes events and pod log lines of stacks, kept for hours. Text that may hold a secret is sealed. Hourly partitions by the time of
-- arrival: old rows leave as whole partitions, so a clean-up costs the same whatever they hold.

create table agent_k8s_events (
  id uuid not null,
  created_at timestamptz not null default now(),
  agent_id uuid not null,
  stack_id uuid not null,
  observed_at timestamptz not null,
  reason text not null,
  message_sealed bytea not null,
  event_type text not null,
  source text,
  involved_object jsonb not null,
  primary key (id, created_at)
) partition by range (created_at);
create index agent_k8s_events_of_stack on agent_k8s_events (stack_id, created_at desc, id desc);

create table agent_pod_logs (
  id uuid not null,
  created_at timestamptz not null default now(),
  agent_id uuid not null,
  stack_id uuid not null,
  namespace text not null,
  pod text not null,
  container text not null,
  ts timestamptz not null,
  line_sealed bytea not null,
  primary key (id, created_at)
) partition by range (created_at);
create index agent_pod_logs_of_stack on agent_pod_logs (stack_id, created_at desc, id desc);

-- An insert never fails because an hour has no partition: such rows go here, and the clean-up deletes them by age.
create table agent_k8s_events_default partition of agent_k8s_events default;
create table agent_pod_logs_default partition of agent_pod_logs default;

-- Skips an hour that has rows in the default partition already: they stay readable there. A lock that readers hold is not waited for
-- longer than a moment, because every later reader would wait behind it.
create function make_telemetry_partitions(parent text, first_hour timestamptz, hours int) returns int
language plpgsql set search_path from current set lock_timeout = '2s' as $$
declare
  from_hour timestamptz;
  name text;
  is_taken boolean;
  made int := 0;
begin
  for step in 0 .. hours loop
    from_hour := date_trunc('hour', first_hour, 'UTC') + step * interval '1 hour';
    name := parent || '_' || to_char(from_hour at time zone 'UTC', 'YYYYMMDDHH24');
    if to_regclass(name) is null then
      execute format('select exists (select from %I where created_at >= $1 and created_at < $2)', parent || '_default')
        into is_taken using from_hour, from_hour + interval '1 hour';
      if not is_taken then
        execute format('create table %I partition of %I for values from (%L) to (%L)', name, parent, from_hour, from_hour + interval '1 hour');
        made := made + 1;
      end if;
    end if;
  end loop;
  return made;
end $$;

-- Drops the partitions that ended before `keep_from`; returns how many, and about how many rows they held.
create function drop_telemetry_partitions(parent text, keep_from timestamptz, out dropped int, out evicted bigint)
language plpgsql set search_path from current set lock_timeout = '2s' as $$
declare
  part record;
begin
  dropped := 0;
  evicted := 0;
  for part in
    select c.oid, c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = parent::regclass and c.relname ~ ('^' || parent || '_[0-9]{10}$')
      and to_timestamp(right(c.relname, 10) || '+00', 'YYYYMMDDHH24TZH') + interval '1 hour' <= keep_from
    order by c.relname
  loop
    evicted := evicted + pg_stat_get_live_tuples(part.oid);
    execute format('drop table %I', part.name);
    dropped := dropped + 1;
  end loop;
end $$;

select make_telemetry_partitions('agent_k8s_events', now(), 2), make_telemetry_partitions('agent_pod_logs', now(), 2);
