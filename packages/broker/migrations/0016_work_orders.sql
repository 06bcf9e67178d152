-- Work orders: one-off jobs that one matching agent claims, executes and reports. An open order is a row of work_orders; a finished one
-- moves to work_order_log. Text, output and the request that created the order stay in work_order_contents, under the same id, so that a
-- move copies and reseals nothing. The side tables repeat created_at: an agent reads its oldest orders by index, whatever others wait for.

create table work_order_contents (
  id uuid primary key,
  yaml_sealed bytea not null,
  yaml_bytes int not null,
  -- Targeting and limits as they were sent, for a retry of the finished order.
  request jsonb not null,
  output_sealed bytea,
  -- Attempt and byte range of the stored output.
  output_attempt int,
  output_start bigint not null default 0,
  output_end bigint not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint work_order_contents_output check ((output_sealed is null) = (output_attempt is null) and output_start <= output_end)
);

create index work_order_contents_with_output on work_order_contents (id) where output_sealed is not null;

create table work_orders (
  id uuid primary key references work_order_contents,
  work_type varchar(50) not null check (work_type <> ''),
  status text not null default 'PENDING' check (status in ('PENDING', 'CLAIMED', 'RETRY_PENDING')),
  match text not null check (match in ('any', 'all')),
  attempt int not null default 0,
  claimed_by uuid references agents,
  claimed_at timestamptz,
  claimed_until timestamptz,
  claim_timeout_seconds int not null check (claim_timeout_seconds > 0),
  max_retries int not null check (max_retries >= 0),
  retry_count int not null default 0,
  backoff_seconds int not null check (backoff_seconds > 0),
  next_retry_after timestamptz,
  last_error text,
  last_error_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint work_orders_retries check (retry_count between 0 and max_retries),
  constraint work_orders_claim check ((status = 'CLAIMED') = (claimed_by is not null) and num_nulls(claimed_by, claimed_at, claimed_until) in (0, 3)),
  constraint work_orders_retry check ((status = 'RETRY_PENDING') = (next_retry_after is not null))
) with (fillfactor = 80);
create index work_orders_newest on work_orders (created_at desc, id desc);
create index work_orders_pending on work_orders (created_at, id) where status = 'PENDING';
create index work_orders_due on work_orders (next_retry_after) where status = 'RETRY_PENDING';
create index work_orders_claims on work_orders (claimed_until) where status = 'CLAIMED';
create index work_orders_by_holder on work_orders (claimed_by) where status = 'CLAIMED';

create table work_order_targets (
  work_order_id uuid not null references work_orders on delete cascade,
  agent_id uuid not null references agents,
  created_at timestamptz not null default now(),
  primary key (work_order_id, agent_id)
);
create index work_order_targets_by_agent on work_order_targets (agent_id, created_at, work_order_id);
create table work_order_labels (
  work_order_id uuid not null references work_orders on delete cascade,
  label varchar(64) not null,
  created_at timestamptz not null default now(),
  primary key (work_order_id, label)
);
create index work_order_labels_by_label on work_order_labels (label, created_at, work_order_id);
create table work_order_annotations (
  work_order_id uuid not null references work_orders on delete cascade,
  key varchar(64) not null,
  value varchar(64) not null,
  created_at timestamptz not null default now(),
  primary key (work_order_id, key)
);
create index work_order_annotations_by_value on work_order_annotations (key, value, created_at, work_order_id);

create table work_order_log (
  id uuid primary key references work_order_contents,
  work_type varchar(50) not null,
  claimed_by uuid,
  claimed_at timestamptz,
  success boolean not null,
  retries_attempted int not null,
  attempt int not null,
  result_message text,
  created_at timestamptz not null,
  completed_at timestamptz not null default now()
);
create index work_order_log_newest on work_order_log (completed_at desc, id desc);
create index work_order_log_by_type on work_order_log (work_type, completed_at desc, id desc);
create index work_order_log_by_agent on work_order_log (claimed_by, completed_at desc, id desc);

-- Agents are woken by the criteria of an order: when it is created, and when it becomes pending again.
create function feed_work_order_criteria(order_ids uuid[], op text) returns void language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'work_order', work_order_id, op from work_order_targets where work_order_id = any(order_ids)
    union all select 'label', md5(label)::uuid, 'work_order', work_order_id, op from work_order_labels where work_order_id = any(order_ids)
    union all select 'annotation', md5(key || '=' || value)::uuid, 'work_order', work_order_id, op from work_order_annotations where work_order_id = any(order_ids);
end $$;
create function feed_work_orders_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'work_order', id, 'work_order', id, 'insert' from new_rows;
  return null;
end $$;
-- A claim or retry that ends within a minute wakes the maintenance task of every process, whose interval may be longer.
create function feed_work_orders_update() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'work_order', n.id, 'work_order', n.id, 'update' from old_rows o join new_rows n using (id) where n.status <> o.status;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'task', '00000000-0000-0000-0000-000000000000', 'work_order_maintenance', null, 'update'
    where exists (select from old_rows o join new_rows n using (id)
                  where n.status <> o.status and least(n.claimed_until, n.next_retry_after) < now() + interval '1 minute');
  perform feed_work_order_criteria(array_agg(n.id), 'update') from old_rows o join new_rows n using (id)
    where n.status = 'PENDING' and o.status <> 'PENDING' having count(*) > 0;
  return null;
end $$;
create function feed_work_orders_delete() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'work_order', id, 'work_order', id, 'delete' from old_rows;
  return null;
end $$;
create trigger feed_insert after insert on work_orders referencing new table as new_rows for each statement execute function feed_work_orders_insert();
create trigger feed_update after update on work_orders referencing old table as old_rows new table as new_rows for each statement execute function feed_work_orders_update();
create trigger feed_delete after delete on work_orders referencing old table as old_rows for each statement execute function feed_work_orders_delete();
create function feed_work_order_targets() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'agent', agent_id, 'work_order', work_order_id, 'insert' from new_rows;
  return null;
end $$;
create function feed_work_order_labels() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'label', md5(label)::uuid, 'work_order', work_order_id, 'insert' from new_rows;
  return null;
end $$;
create function feed_work_order_annotations() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'annotation', md5(key || '=' || value)::uuid, 'work_order', work_order_id, 'insert' from new_rows;
  return null;
end $$;
create trigger feed_insert after insert on work_order_targets referencing new table as new_rows for each statement execute function feed_work_order_targets();
create trigger feed_insert after insert on work_order_labels referencing new table as new_rows for each statement execute function feed_work_order_labels();
create trigger feed_insert after insert on work_order_annotations referencing new table as new_rows for each statement execute function feed_work_order_annotations();
