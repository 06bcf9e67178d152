-- What should run where: stacks, their immutable revisions, and the materialised pairs of agent and stack.

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

-- The text is sealed (AES-256-GCM): manifests carry Secrets.
create table deployment_objects (
  id uuid primary key,
  stack_id uuid not null constraint deployment_objects_stack_id_fkey references stacks,
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
  deleted_at timestamptz
);
create unique index deployment_objects_by_sequence on deployment_objects (stack_id, sequence_id desc);
create index deployment_objects_by_checksum on deployment_objects (stack_id, yaml_checksum);
alter table deployment_objects alter column yaml_sealed set storage external; -- ciphertext does not compress

create table agent_targets (
  id uuid primary key,
  agent_id uuid not null references agents,
  stack_id uuid not null references stacks,
  explicit boolean not null default false,
  by_label boolean not null default false,
  by_annotation boolean not null default false,
  created_at timestamptz not null default now(),
  constraint unique_agent_stack unique (agent_id, stack_id),
  constraint agent_targets_has_reason check (explicit or by_label or by_annotation)
);
create index agent_targets_by_stack on agent_targets (stack_id, agent_id);

-- A revision never changes: only deleted_at may be set, once.
create function refuse_object_change() returns trigger language plpgsql as $$
begin
  if old.deleted_at is null and new.deleted_at is not null
     and (new.id, new.stack_id, new.sequence_id, new.yaml_checksum, new.yaml_bytes, new.is_deletion_marker, new.submitted_at, new.created_at)
       = (old.id, old.stack_id, old.sequence_id, old.yaml_checksum, old.yaml_bytes, old.is_deletion_marker, old.submitted_at, old.created_at)
     and new.rollback_of is not distinct from old.rollback_of and new.yaml_sealed = old.yaml_sealed then
    return new;
  end if;
  -- Sealing the same text anew (key rotation) is no change of the revision.
  if new.deleted_at is not distinct from old.deleted_at and new.yaml_checksum = old.yaml_checksum and new.yaml_bytes = old.yaml_bytes
     and new.sequence_id = old.sequence_id and new.stack_id = old.stack_id and new.id = old.id
     and new.is_deletion_marker = old.is_deletion_marker and current_setting('brokkr.reseal', true) = 'on' then
    return new;
  end if;
  raise exception 'deployment objects are immutable' using errcode = 'BK001';
end $$;
create trigger deployment_objects_immutable before update on deployment_objects for each row execute function refuse_object_change();
