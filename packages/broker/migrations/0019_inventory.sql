-- The resource tree of a stack as an agent sees it: members and the objects they own, without content. Only the latest tree is kept. Nodes
-- are an object by uid, so that one statement merges a delta.

create table agent_stack_inventory (
  agent_id uuid not null references agents,
  stack_id uuid not null references stacks,
  rev bigint not null,
  nodes jsonb not null,
  -- Size of the nodes as text, which bounds a page without reading them.
  bytes int not null,
  observed_at timestamptz not null default now(),
  primary key (agent_id, stack_id)
);
create index agent_stack_inventory_of_stack on agent_stack_inventory (stack_id, agent_id);

create function feed_inventory() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select distinct 'stack_status', stack_id, 'inventory', agent_id, lower(tg_op) from new_rows;
  return null;
end $$;
create trigger feed_insert after insert on agent_stack_inventory referencing new table as new_rows for each statement execute function feed_inventory();
create trigger feed_update after update on agent_stack_inventory referencing new table as new_rows for each statement execute function feed_inventory();
