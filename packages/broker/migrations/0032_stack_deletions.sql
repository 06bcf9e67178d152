-- What a stack had when it was deleted, for undeleting it: the object it wanted and the agents that it targeted explicitly. Labels and
-- annotations stay with the stack, so the other targets are recomputed.

create table stack_deletions (
  stack_id uuid primary key references stacks,
  object_id uuid references deployment_objects,
  agent_ids uuid[] not null default '{}',
  created_at timestamptz not null default now()
);
