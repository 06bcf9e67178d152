-- "Removed" is the past as soon as something is wanted again: a new revision, or the pair anew. Were the row left alone, a pair
-- that ends before its agent reported anything new would owe no removal, and what the agent applied meanwhile would stay.

create index agent_stack_status_removed on agent_stack_status (stack_id) where phase = 'removed';

create or replace function feed_objects_insert() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from new_rows n left join stacks s on s.id = n.stack_id and s.last_sequence = n.sequence_id and s.sequence_xid = pg_current_xact_id()
             where s.id is null) then
    raise exception 'a deployment object must carry the number its transaction took from the stack' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'stack', stack_id, 'deployment_object', id, 'insert' from new_rows;
  update agent_stack_status s set phase = 'pending', code = 'applying', message = null from new_rows n
    where s.stack_id = n.stack_id and s.phase = 'removed' and not n.is_deletion_marker
      and exists (select from agent_targets t where t.agent_id = s.agent_id and t.stack_id = s.stack_id);
  return null;
end $$;

create or replace function feed_targets_insert() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'agent', agent_id, 'target', stack_id, 'insert' from new_rows union all select 'stack_status', stack_id, 'target', agent_id, 'insert' from new_rows;
  update agent_stack_status s set phase = 'pending', code = 'applying', message = null from new_rows n
    where s.agent_id = n.agent_id and s.stack_id = n.stack_id and (s.phase = 'removed' or (s.phase = 'pending' and s.code = 'removing'));
  return null;
end $$;
