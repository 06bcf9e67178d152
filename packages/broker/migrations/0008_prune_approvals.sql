-- Prune approvals: permission for the removals of an agent's next snapshot, or for what one deployment object of a stack drops. The
-- prune guard of the agent asks for it; each is used once.

create table prune_approvals (
  id uuid primary key,
  agent_id uuid not null references agents,
  removals int check (removals between 1 and 1000000),
  stack_id uuid references stacks,
  sequence_id bigint,
  expires_at timestamptz,
  used_at timestamptz,
  created_by text not null,
  created_at timestamptz not null default now(),
  constraint prune_approvals_one_form check (
    (removals is not null and stack_id is null and sequence_id is null and expires_at is not null)
    or (removals is null and stack_id is not null and sequence_id is not null))
);
create index prune_approvals_open on prune_approvals (agent_id) where used_at is null;
do $$
declare event text;
begin
  foreach event in array array['insert', 'update', 'delete'] loop
    execute format('create trigger feed_%s after %s on prune_approvals referencing %s table as changed_rows for each statement execute function feed_agent_marks()',
      event, event, case event when 'delete' then 'old' else 'new' end);
  end loop;
end $$;

-- The stream that sends a snapshot claims the approval first; the claim ends with the stream, or after its lease if the broker process
-- ended. A table of its own: a claim is no change of the approval that the agent must read.
create table prune_approval_claims (
  approval_id uuid primary key references prune_approvals on delete cascade,
  snapshot_id uuid not null,
  claimed_until timestamptz not null
);
create index prune_approval_claims_by_snapshot on prune_approval_claims (snapshot_id);
