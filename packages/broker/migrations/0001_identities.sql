-- Who talks to the broker: admin keys, generators, agents, with the labels and annotations that targeting matches.
-- A key is stored as the SHA-256 of its long part and looked up through a partial index over live rows.

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
create index agents_pak on agents (pak_hash) where deleted_at is null and pak_hash is not null;
create index agents_by_name on agents (name, id) where deleted_at is null;

-- Apart from agents and half empty on purpose: a heartbeat rewrites one small row in its page and no index.
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

create table app_initialization (initialized_at timestamptz not null default now());
