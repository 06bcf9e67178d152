-- A function that sets its own search_path has PostgreSQL look up names and check plans anew, in the function and in every statement of the
-- transaction behind it: that was half of what the trigger of a submission cost. It now names its tables with their schema instead, which is
-- as safe for whoever writes with another search_path. What it does is what 0028 says.
do $do$
begin
  execute format($create$
create or replace function feed_object_insert() returns trigger language plpgsql as $body$
declare
  has_removed boolean;
begin
  insert into %1$I.change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', new.stack_id, 'deployment_object', new.id, 'insert' from %1$I.stacks s
    where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.sequence_xid = pg_current_xact_id()
    returning not new.is_deletion_marker and exists (
      select from %1$I.agent_stack_status r where r.stack_id = new.stack_id and r.phase = 'removed') into has_removed;
  if not found then
    raise exception 'a deployment object must carry the number its transaction took from the stack' using errcode = 'BK003';
  end if;
  if has_removed then
    update %1$I.agent_stack_status s set phase = 'pending', code = 'applying', message = null
      from (select r.agent_id from %1$I.agent_stack_status r
            where r.stack_id = new.stack_id and r.phase = 'removed'
              and exists (select from %1$I.agent_targets t where t.agent_id = r.agent_id and t.stack_id = r.stack_id)
            order by r.agent_id for no key update of r) woken
      where s.agent_id = woken.agent_id and s.stack_id = new.stack_id;
  end if;
  return null;
end $body$
  $create$, current_schema());
end $do$;
