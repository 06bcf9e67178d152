-- The head of a stack is its newest revision, held by the database: whoever asks what a stack should run finds it by that key instead of in
-- the stack's history, whose index grows. A revision that is inserted must be the head by then; nothing else of 0029 has changed.
do $do$
begin
  execute format($create$
create or replace function feed_object_insert() returns trigger language plpgsql as $body$
declare
  has_removed boolean;
begin
  insert into %1$I.change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'stack', new.stack_id, 'deployment_object', new.id, 'insert' from %1$I.stacks s
    where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.sequence_xid = pg_current_xact_id() and s.head_object_id = new.id
    returning not new.is_deletion_marker and exists (
      select from %1$I.agent_stack_status r where r.stack_id = new.stack_id and r.phase = 'removed') into has_removed;
  if not found then
    raise exception 'a deployment object must be the head of its stack and carry the number its transaction took from it' using errcode = 'BK003';
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

-- Every release has set it; should a row written by hand lack it, it is set here.
update stacks s set head_object_id = newest.id
  from (select distinct on (stack_id) stack_id, id from deployment_objects where deleted_at is null order by stack_id, sequence_id desc) newest
  where newest.stack_id = s.id and s.head_object_id is distinct from newest.id;
