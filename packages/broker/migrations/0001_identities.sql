-- Callers of the broker: admin PAKs, generators and agents, with the labels and annotations that targeting matches.
-- A PAK is stored as the SHA-256 of its long part and looked up through a partial index over live rows.

create table admin_role (
  id uuid primary key,
  name text not null check (char_length(name) between 1 and 255),
  pak_hash text not null,
  pak_short text,
  readonly boolean not null default false,
  scope text[],
  expires_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index unique_admin_pak on admin_role (pak_hash) where deleted_at is null;

-- The first start is recorded once. Without this record a broker whose last admin PAK is gone would look like a new one and
-- would accept the configured hash again, although that PAK was revoked.
create table app_initialization (initialized_at timestamptz not null default now());
create unique index single_initialization on app_initialization ((true));

-- Hashes that a rotation replaced. Revoked PAKs keep their row in admin_role; a rotated one keeps its row and gets another hash.
create table replaced_admin_hashes (
  pak_hash text primary key,
  replaced_at timestamptz not null default now()
);

create table generators (
  id uuid primary key,
  name varchar(255) not null check (name <> ''),
  description text check (char_length(description) <= 4096),
  pak_hash text,
  pak_short text,
  is_active boolean not null default true,
  is_system boolean not null default false,
  last_active_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index unique_generator_name on generators (name) where deleted_at is null;
create index generators_pak on generators (pak_hash) where deleted_at is null and pak_hash is not null;
-- There is one, and every new agent is registered with it: it must not be looked for among all generators.
create index generators_system on generators (id) where is_system;
-- Lists that include deleted rows have the same order as the others and need an index of their own.
create index generators_with_deleted on generators (name, id);

create table agents (
  id uuid primary key,
  name varchar(255) not null check (name <> ''),
  cluster_name varchar(255) not null check (cluster_name <> ''),
  status varchar(50) not null default 'INACTIVE' check (status <> ''),
  pak_hash text,
  pak_short text,
  connection_state text not null default 'never' check (connection_state in ('never', 'connected', 'disconnected')),
  connected_at timestamptz,
  agent_version text,
  facts jsonb,
  invite_id uuid,
  invited_generator_ids uuid[] not null default '{}',
  accepted_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create unique index unique_agent_cluster on agents (name, cluster_name) where deleted_at is null;
-- An agent may choose the hash of its own PAK. Two live agents with one hash would share a PAK.
create unique index unique_agent_pak on agents (pak_hash) where deleted_at is null and pak_hash is not null;
create index agents_by_name on agents (name, id) where deleted_at is null;
create index agents_with_deleted on agents (name, id);
create index agents_connected on agents (id) where connection_state = 'connected' and deleted_at is null;
create index agents_by_invite on agents (invite_id) where invite_id is not null;

-- Separate from agents and half empty: a heartbeat rewrites one small row in its page and no index.
create table agent_liveness (
  agent_id uuid primary key references agents,
  last_heartbeat timestamptz,
  last_seen_at timestamptz,
  k8s_reachable boolean,
  k8s_api_latency_ms int,
  k8s_reported_at timestamptz
) with (fillfactor = 50);
create index agent_liveness_seen on agent_liveness (last_seen_at);

create table agent_labels (
  id uuid primary key,
  agent_id uuid not null constraint fk_agent_labels_agent references agents,
  label varchar(64) not null check (label <> ''),
  created_at timestamptz not null default now(),
  constraint agent_labels_agent_id_label_key unique (agent_id, label)
);
create index agent_labels_by_label on agent_labels (label, agent_id);

create table agent_annotations (
  id uuid primary key,
  agent_id uuid not null constraint fk_agent_annotations_agent references agents,
  key varchar(64) not null check (key <> ''),
  value varchar(64) not null check (value <> ''),
  created_at timestamptz not null default now(),
  constraint agent_annotations_agent_id_key_key unique (agent_id, key)
);
create index agent_annotations_by_pair on agent_annotations (key, value, agent_id);

create table agent_generator_registrations (
  id uuid primary key,
  agent_id uuid not null constraint agent_generator_registrations_agent_id_fkey references agents,
  generator_id uuid not null constraint agent_generator_registrations_generator_id_fkey references generators,
  registered_at timestamptz not null default now(),
  constraint unique_agent_generator unique (agent_id, generator_id)
);
create index registrations_by_generator on agent_generator_registrations (generator_id, agent_id);
