-- Flows: DataFlow and DataFlowCron objects of all clusters, as agents report them with the health of a stack, and the orders that steer them.

-- stack_id has no foreign key: it would lock the stack after the agent and its targets, against the lock order of 0007.
create table flows (
  id uuid primary key,
  agent_id uuid not null references agents,
  stack_id uuid not null,
  -- Owner of the stack, which never changes.
  generator_id uuid not null,
  deployment_object_id uuid not null,
  kind text not null check (kind in ('DataFlow', 'DataFlowCron')),
  namespace text not null,
  name text not null,
  state text not null check (state in ('running', 'pending', 'blocked', 'error', 'stopped', 'completed', 'unknown')),
  ready boolean not null,
  message text,
  -- Last report with figures: as it was sent, when the agent checked, and when it arrived.
  report jsonb,
  reported_at timestamptz,
  received_at timestamptz,
  checked_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint unique_flow unique (agent_id, stack_id, kind, namespace, name),
  constraint flows_report check (num_nulls(report, reported_at, received_at) in (0, 3))
) with (fillfactor = 80);
create index flows_by_name on flows (name, id);
create index flows_of_generator on flows (generator_id, name, id);
create index flows_of_agent on flows (agent_id, name, id);

-- The work orders of a flow; their state is that of the work order.
create table flow_orders (
  work_order_id uuid primary key references work_order_contents on delete cascade,
  flow_id uuid not null references flows on delete cascade,
  action text not null,
  created_at timestamptz not null default now()
);
create index flow_orders_of_flow on flow_orders (flow_id, created_at desc, work_order_id desc);

-- Pages about the stack see a new, gone or changed flow. Counts alone are no change: they differ in every report.
create function feed_flows() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', stack_id, 'flow', id, lower(tg_op) from changed_rows;
  return null;
end $$;
create function feed_flows_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', n.stack_id, 'flow', n.id, 'update' from old_rows o join new_rows n using (id)
    where (n.state, n.ready, n.message) is distinct from (o.state, o.ready, o.message);
  return null;
end $$;
create trigger feed_insert after insert on flows referencing new table as changed_rows for each statement execute function feed_flows();
create trigger feed_delete after delete on flows referencing old table as changed_rows for each statement execute function feed_flows();
create trigger feed_update after update on flows referencing old table as old_rows new table as new_rows for each statement execute function feed_flows_update();
