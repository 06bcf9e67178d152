-- Invites of agents: the hash of a join token, and what an agent gets that joins with it. A use is one conditional update of uses_left; an
-- agent records its invite.

create table agent_invites (
  id uuid primary key,
  token_hash text not null constraint unique_invite_token unique,
  token_short text not null,
  name varchar(255) check (name <> ''),
  name_prefix varchar(200) check (name_prefix <> ''),
  cluster_name varchar(255) check (cluster_name <> ''),
  labels text[] not null,
  annotations jsonb not null,
  generator_ids uuid[] not null,
  preset text not null check (preset in ('standard', 'namespaced', 'cluster-admin', 'observe')),
  namespaces text[] not null,
  uses int not null check (uses between 1 and 1000),
  uses_left int not null check (uses_left between 0 and uses),
  approve boolean not null default false,
  expires_at timestamptz not null,
  revoked_at timestamptz,
  created_by text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint agent_invites_one_name check (name is null or (name_prefix is null and uses = 1))
);
create index agent_invites_newest on agent_invites (created_at desc, id desc);
create index agent_invites_by_end on agent_invites (expires_at);
