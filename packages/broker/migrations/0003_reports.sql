-- What agents say: events (history), acknowledgements, and the newest status per agent and stack (the present).

create table agent_events (
  id uuid primary key,
  agent_id uuid not null references agents,
  deployment_object_id uuid not null constraint fk_deployment_object references deployment_objects,
  stack_id uuid not null references stacks,
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

-- Kept apart from events, so that trimming history never delivers an object again.
create table agent_object_acks (
  agent_id uuid not null references agents,
  deployment_object_id uuid not null references deployment_objects,
  first_at timestamptz not null default now(),
  last_at timestamptz not null default now(),
  last_type text not null,
  last_status text not null,
  primary key (agent_id, deployment_object_id)
);

create table agent_stack_status (
  agent_id uuid not null references agents,
  stack_id uuid not null references stacks,
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
create sequence stream_sessions;
