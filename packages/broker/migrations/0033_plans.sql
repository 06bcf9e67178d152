-- Plans: what a change of a stack would do on every targeted cluster. Agents compute them with dry runs. Content and results are sealed,
-- because manifests contain Secrets.

create table plans (
  id uuid primary key,
  stack_id uuid not null references stacks,
  base_sequence_id bigint,
  content_sealed bytea not null,
  content_checksum text not null,
  is_deletion_marker boolean not null,
  target_digest text not null,
  by_kind text not null,
  by_id uuid,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index plans_by_stack on plans (stack_id, expires_at);
create index plans_by_expiry on plans (expires_at);

create table plan_results (
  id uuid primary key,
  plan_id uuid not null references plans on delete cascade,
  agent_id uuid not null references agents,
  state text not null check (state in ('waiting', 'answered', 'silent', 'refused')),
  reason text,
  summary jsonb,
  changes_sealed bytea,
  at timestamptz,
  created_at timestamptz not null default now(),
  constraint unique_plan_result unique (plan_id, agent_id)
);
create index plan_results_waiting on plan_results (agent_id, created_at, id) where state = 'waiting';

-- An agent that must answer gets a refresh hint; pages about the stack see the progress.
create function feed_plan_results_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'plan', plan_id, 'insert' from new_rows where state = 'waiting'
    union all
    select distinct 'stack_status', p.stack_id, 'plan', p.id, 'insert' from new_rows n join plans p on p.id = n.plan_id;
  return null;
end $$;
create function feed_plan_results_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', p.stack_id, 'plan', p.id, 'update' from old_rows o join new_rows n using (id) join plans p on p.id = n.plan_id
    where n.at is distinct from o.at;
  return null;
end $$;
create trigger feed_insert after insert on plan_results referencing new table as new_rows for each statement execute function feed_plan_results_insert();
create trigger feed_update after update on plan_results referencing old table as old_rows new table as new_rows for each statement execute function feed_plan_results_update();
