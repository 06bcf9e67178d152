-- Reports of agents: events (history), acknowledgements, the newest status per agent and stack, and health.

-- stack_id has no foreign key: it would lock the stack after the agent and its targets, against the lock order of 0007.
create table agent_events (
  id uuid primary key,
  agent_id uuid not null references agents,
  deployment_object_id uuid not null constraint fk_deployment_object references deployment_objects,
  stack_id uuid not null,
  event_type varchar(50) not null check (event_type <> ''),
  status varchar(10) not null check (status <> ''),
  message text,
  detail jsonb,
  occurred_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index agent_events_by_agent on agent_events (agent_id, created_at desc, id);
create index agent_events_by_stack on agent_events (stack_id, created_at desc, id);
create index agent_events_by_object on agent_events (deployment_object_id, agent_id, created_at desc);
create index agent_events_by_time on agent_events (created_at, id);

-- Separate from events, so that trimming history never delivers an object again.
create table agent_object_acks (
  agent_id uuid not null references agents,
  deployment_object_id uuid not null references deployment_objects,
  first_at timestamptz not null default now(),
  last_at timestamptz not null default now(),
  last_type text not null,
  last_status text not null,
  primary key (agent_id, deployment_object_id)
);
create index agent_object_acks_by_age on agent_object_acks (last_at);

create table agent_stack_status (
  agent_id uuid not null references agents,
  stack_id uuid not null,
  epoch uuid not null,
  rev bigint not null,
  object_id uuid,
  phase text not null check (phase in ('applied', 'pending', 'failed', 'held', 'removed')),
  code text,
  message text,
  attempts int not null default 0,
  retry_at timestamptz,
  -- (session, n) orders an agent's reports; 0, 0 is a row the broker wrote itself.
  session bigint not null default 0,
  n bigint not null default 0,
  observed_at timestamptz,
  received_at timestamptz not null default now(),
  primary key (agent_id, stack_id)
);
create index agent_stack_status_by_stack on agent_stack_status (stack_id);
create index agent_stack_status_open on agent_stack_status (agent_id) where phase <> 'removed';
create index agent_stack_status_removed_by_age on agent_stack_status (received_at) where phase = 'removed';
create index agent_stack_status_held on agent_stack_status (code) where phase = 'held';

-- Orders the sessions of agents.
create sequence stream_sessions;

-- Which agents are connected, and to which broker process. Written in batches, unlogged, and ignored when it was not refreshed recently.
create unlogged table agent_sessions (
  agent_id uuid not null,
  process uuid not null,
  kind text not null check (kind in ('stream', 'ws')),
  connected_since timestamptz not null,
  messages_in bigint not null default 0,
  messages_out bigint not null default 0,
  seen_at timestamptz not null default now(),
  primary key (agent_id, process, kind)
);
create index agent_sessions_of_process on agent_sessions (process);

-- Health of deployment objects: one record per agent and object. The newest of a stack is copied to its target.
create table deployment_health (
  id uuid primary key,
  agent_id uuid not null references agents,
  deployment_object_id uuid not null constraint deployment_health_deployment_object_id_fkey references deployment_objects,
  status text not null check (status in ('healthy', 'degraded', 'failing', 'unknown')),
  summary text,
  checked_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint unique_agent_object_health unique (agent_id, deployment_object_id)
);
create index deployment_health_by_object on deployment_health (deployment_object_id);
