-- Diagnostic requests: an agent collects pod statuses, events and log tails of a deployment object once. The result is sealed as a whole,
-- because logs can hold anything.

create table diagnostic_requests (
  id uuid primary key,
  agent_id uuid not null references agents,
  deployment_object_id uuid not null references deployment_objects,
  status text not null default 'pending' check (status in ('pending', 'claimed', 'completed', 'expired', 'failed')),
  requested_by text,
  created_at timestamptz not null default now(),
  claimed_at timestamptz,
  completed_at timestamptz,
  expires_at timestamptz not null,
  constraint diagnostic_requests_claim check (status not in ('claimed', 'completed') or claimed_at is not null),
  constraint diagnostic_requests_end check ((status in ('completed', 'expired', 'failed')) = (completed_at is not null))
);
create index diagnostic_requests_pending on diagnostic_requests (agent_id, created_at, id) where status = 'pending';
create index diagnostic_requests_open on diagnostic_requests (expires_at) where status in ('pending', 'claimed');
create index diagnostic_requests_ended on diagnostic_requests (completed_at) where status in ('completed', 'expired', 'failed');

create table diagnostic_results (
  id uuid primary key,
  request_id uuid not null constraint unique_diagnostic_result unique references diagnostic_requests on delete cascade,
  parts_sealed bytea not null,
  collected_at timestamptz not null,
  created_at timestamptz not null default now()
);

create function feed_diagnostics_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'agent', agent_id, 'diagnostic', id, 'insert' from new_rows;
  return null;
end $$;
create function feed_diagnostics_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', n.agent_id, 'diagnostic', n.id, 'update' from old_rows o join new_rows n using (id) where n.status <> o.status;
  return null;
end $$;
create trigger feed_insert after insert on diagnostic_requests referencing new table as new_rows for each statement execute function feed_diagnostics_insert();
create trigger feed_update after update on diagnostic_requests referencing old table as old_rows new table as new_rows for each statement execute function feed_diagnostics_update();
