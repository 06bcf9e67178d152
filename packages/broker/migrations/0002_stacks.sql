-- Desired state: stacks, their immutable deployment objects, and targets, the assignments of stacks to agents.

create table stacks (
  id uuid primary key,
  name varchar(255) not null check (name <> ''),
  description text check (char_length(description) <= 4096),
  generator_id uuid not null constraint stacks_generator_id_fkey references generators,
  -- The number of the last change to what the stack wants. Raising it locks the row, so number order is commit order.
  last_sequence bigint not null default 0,
  -- The transaction that took that number: how the check triggers know that a writer took one at all.
  sequence_xid xid8 not null default pg_current_xact_id(),
  head_object_id uuid,
  drift text not null default 'heal' check (drift in ('heal', 'report', 'off')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index unique_stack_name on stacks (name) where deleted_at is null;
create index stacks_by_generator on stacks (generator_id, name, id) where deleted_at is null;
create index stacks_by_name on stacks (name, id) where deleted_at is null;
create index stacks_with_deleted on stacks (name, id);

create table stack_labels (
  id uuid primary key,
  stack_id uuid not null constraint fk_stack_labels_stack references stacks,
  label varchar(64) not null check (label <> ''),
  created_at timestamptz not null default now(),
  constraint stack_labels_stack_id_label_key unique (stack_id, label)
);
create index stack_labels_by_label on stack_labels (label, stack_id);

create table stack_annotations (
  id uuid primary key,
  stack_id uuid not null constraint fk_stack_annotations_stack references stacks,
  key varchar(64) not null check (key <> ''),
  value varchar(64) not null check (value <> ''),
  created_at timestamptz not null default now(),
  constraint unique_stack_annotation unique (stack_id, key)
);
create index stack_annotations_by_pair on stack_annotations (key, value, stack_id);

-- The manifest is sealed (AES-256-GCM), because manifests contain Secrets; ciphertext does not compress. Small ones stay in the row.
-- There is no foreign key to stacks: feed_object_insert reads that row anyway, and the triggers below guard its deletion.
create table deployment_objects (
  id uuid primary key,
  stack_id uuid not null,
  sequence_id bigint not null,
  yaml_sealed bytea not null,
  yaml_bytes int not null,
  yaml_checksum text not null,
  is_deletion_marker boolean not null default false,
  rollback_of uuid references deployment_objects,
  submitted_at timestamptz not null default now(),
  created_by_kind text not null,
  created_by_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- The transaction that wrote the row: a deployment object is its own row of the change feed.
  xid xid8 not null default pg_current_xact_id()
) with (toast_tuple_target = 4096);
alter table deployment_objects alter column yaml_sealed set storage external; -- ciphertext does not compress
create unique index deployment_objects_by_sequence on deployment_objects (stack_id, sequence_id desc);
create index deployment_objects_by_checksum on deployment_objects (stack_id, yaml_checksum);
-- Also by id: a batch that is larger than a page continues behind the last row.
create index deployment_objects_by_xid on deployment_objects (xid, id);

create table agent_targets (
  id uuid primary key,
  agent_id uuid not null references agents,
  stack_id uuid not null references stacks,
  explicit boolean not null default false,
  by_label boolean not null default false,
  by_annotation boolean not null default false,
  created_at timestamptz not null default now(),
  -- The newest health that the agent reported for the stack.
  health text check (health in ('healthy', 'degraded', 'failing', 'unknown')),
  health_at timestamptz,
  constraint unique_agent_stack unique (agent_id, stack_id),
  constraint agent_targets_has_reason check (explicit or by_label or by_annotation)
);
create index agent_targets_by_stack on agent_targets (stack_id, agent_id);

-- A deployment object never changes, except that deleted_at is set once. Sealing the same manifest with another key is no change.
create function refuse_object_change() returns trigger language plpgsql as $$
declare
  is_reseal boolean := new.yaml_sealed is distinct from old.yaml_sealed;
  is_deletion boolean := old.deleted_at is null and new.deleted_at is not null;
begin
  if (new.id, new.stack_id, new.sequence_id, new.yaml_checksum, new.yaml_bytes, new.is_deletion_marker, new.submitted_at, new.created_at, new.created_by_kind, new.xid)
       = (old.id, old.stack_id, old.sequence_id, old.yaml_checksum, old.yaml_bytes, old.is_deletion_marker, old.submitted_at, old.created_at, old.created_by_kind, old.xid)
     and new.rollback_of is not distinct from old.rollback_of and new.created_by_id is not distinct from old.created_by_id
     and (is_deletion or new.deleted_at is not distinct from old.deleted_at)
     and (is_deletion or new.updated_at = old.updated_at)
     and (is_deletion <> is_reseal) and (not is_reseal or current_setting('brokkr.reseal', true) = 'on') then
    return new;
  end if;
  raise exception 'deployment objects are immutable' using errcode = 'BK001';
end $$;
create trigger deployment_objects_immutable before update on deployment_objects for each row execute function refuse_object_change();

-- In place of foreign keys. A purge removes deployment objects first. A transaction that adds one holds the lock of the stack row,
-- so this statement waits for it and sees its row.
create function refuse_orphaned_objects() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from old_rows o join deployment_objects d on d.stack_id = o.id)
     or exists (select from old_rows o join agent_stack_status s on s.stack_id = o.id) then
    raise exception 'a stack with revisions or statuses cannot be removed: remove these first' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
create trigger refuse_orphans after delete on stacks referencing old table as old_rows for each statement execute function refuse_orphaned_objects();
create function refuse_new_stack_id() returns trigger language plpgsql as $$
begin
  raise exception 'the id of a stack never changes' using errcode = 'foreign_key_violation';
end $$;
create trigger refuse_new_id before update of id on stacks for each row when (new.id is distinct from old.id) execute function refuse_new_stack_id();

-- A reported removal no longer counts once a deployment object that is no deletion marker followed it. A report with a higher number
-- than the stack ever had belongs to another epoch and proves nothing. Tables are named with their schema: a function that sets its own
-- search_path makes PostgreSQL plan its statements again.
do $do$
begin
  execute format($create$
create function removal_is_past(of_stack uuid, at_rev bigint, with_object uuid) returns boolean language sql stable as $body$
  select not exists (select from %1$I.stacks k where k.id = of_stack and k.last_sequence >= at_rev)
    or exists (select from %1$I.deployment_objects d where d.stack_id = of_stack and not d.is_deletion_marker
                 and d.sequence_id > greatest(at_rev, (select o.sequence_id from %1$I.deployment_objects o where o.id = with_object)))
$body$
  $create$, current_schema());
end $do$;
