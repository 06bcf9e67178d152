-- Which agents are connected, and to which process: written in batches, worth nothing after a crash, and ignored once nobody has
-- refreshed it for a while.

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
