-- Webhook subscriptions, and one delivery for each event and subscription, written in the transaction of the event. Address, credential and
-- signing secret are sealed. A broker process caches subscriptions and drops them by a control row; senders are woken by a task row, or,
-- where agents deliver, by the first label they must hold.

create table webhook_subscriptions (
  id uuid primary key,
  name text not null check (length(name) between 1 and 255),
  url_sealed bytea not null,
  auth_sealed bytea,
  secret_sealed bytea not null,
  old_secret_sealed bytea,
  old_secret_until timestamptz,
  event_types text[] not null check (cardinality(event_types) between 1 and 50),
  filters jsonb,
  target_labels text[],
  enabled boolean not null default true,
  max_retries int not null default 5 check (max_retries between 0 and 10),
  timeout_seconds int not null default 30 check (timeout_seconds between 1 and 300),
  created_by text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint webhook_subscriptions_old_secret check ((old_secret_sealed is null) = (old_secret_until is null))
);
create index webhook_subscriptions_newest on webhook_subscriptions (created_at desc, id desc);

create table webhook_deliveries (
  id uuid primary key,
  subscription_id uuid not null references webhook_subscriptions on delete cascade,
  event_type text not null,
  event_id uuid not null,
  payload text not null,
  target_labels text[],
  status text not null default 'pending' check (status in ('pending', 'acquired', 'success', 'failed', 'dead')),
  -- The agent that holds it; null: a broker.
  acquired_by uuid references agents,
  acquired_until timestamptz,
  attempts int not null default 0,
  last_attempt_at timestamptz,
  next_retry_at timestamptz,
  last_error text,
  last_status_code int,
  replay_of uuid,
  created_at timestamptz not null default now(),
  completed_at timestamptz,
  constraint webhook_deliveries_lease check ((status = 'acquired') = (acquired_until is not null)),
  constraint webhook_deliveries_retry check ((status = 'failed') = (next_retry_at is not null)),
  constraint webhook_deliveries_end check ((status in ('success', 'dead')) = (completed_at is not null))
);
create index webhook_deliveries_pending on webhook_deliveries (subscription_id, created_at, id) where status = 'pending';
create index webhook_deliveries_leases on webhook_deliveries (acquired_until) where status = 'acquired';
create index webhook_deliveries_in_flight on webhook_deliveries (subscription_id) where status = 'acquired';
create index webhook_deliveries_retries on webhook_deliveries (next_retry_at) where status = 'failed';
create index webhook_deliveries_ended on webhook_deliveries (completed_at) where status in ('success', 'dead');
create index webhook_deliveries_dead on webhook_deliveries (created_at) where status = 'dead';
create index webhook_deliveries_of_subscription on webhook_deliveries (subscription_id, created_at desc, id desc);
create index webhook_deliveries_newest on webhook_deliveries (created_at desc, id desc);
create index webhook_deliveries_for_agents on webhook_deliveries using gin (target_labels) where status = 'pending' and cardinality(target_labels) > 0;
-- Deliveries that no agent claims end after their age limit.
create index webhook_deliveries_unclaimed on webhook_deliveries (created_at) where status = 'pending' and cardinality(target_labels) > 0;

create function feed_subscriptions() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'control', '00000000-0000-0000-0000-000000000000', 'webhook_subscription', id, lower(tg_op) from changed_rows;
  return null;
end $$;
do $$
declare event text;
begin
  foreach event in array array['insert', 'update', 'delete'] loop
    execute format('create trigger feed_%s after %s on webhook_subscriptions referencing %s table as changed_rows for each statement execute function feed_subscriptions()',
      event, event, case event when 'delete' then 'old' else 'new' end);
  end loop;
end $$;

-- One row per statement and scope, however many deliveries became due: those who are woken read the state.
create function feed_due_deliveries(labels text[], op text) returns void language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct case when label is null then 'task' else 'label' end,
      coalesce(md5(label), '00000000-0000-0000-0000-000000000000')::uuid, 'webhook_delivery', null::uuid, op
    from unnest(labels) as due (label);
end $$;
create function feed_deliveries_insert() returns trigger language plpgsql set search_path from current as $$
begin
  perform feed_due_deliveries(array_agg(target_labels[1]), 'insert') from new_rows where status = 'pending' having count(*) > 0;
  return null;
end $$;
create function feed_deliveries_update() returns trigger language plpgsql set search_path from current as $$
begin
  perform feed_due_deliveries(array_agg(n.target_labels[1]), 'update') from old_rows o join new_rows n using (id)
    where n.status = 'pending' and o.status <> 'pending' having count(*) > 0;
  return null;
end $$;
create trigger feed_insert after insert on webhook_deliveries referencing new table as new_rows for each statement execute function feed_deliveries_insert();
create trigger feed_update after update on webhook_deliveries referencing old table as old_rows new table as new_rows for each statement execute function feed_deliveries_update();
