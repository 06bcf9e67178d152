-- Live sockets. A number orders the sockets of an agent over all broker processes, so that the newer one evicts the older. Subscribers of
-- live tails are counted per process.

alter table agent_sessions add column session bigint not null default 0;

create unlogged table live_subscribers (
  process uuid primary key,
  stack int not null,
  fleet int not null,
  seen_at timestamptz not null default now()
);
