-- One order of locks for everybody who writes pairs, statuses and counts, so that nobody waits in a circle:
--   who changes pairs is alone (the targeting lock); who reports shares that lock;
--   the stack or the agent → statuses by (stack, agent) → counts by (stack, slot).

-- A report locks what it will write before its first row, each step by what is committed by then. A statement of its own reads by one
-- instant only: it would overlook the row that the report before it has just made, and meet it after the counts.
create function lock_report(agent_ids uuid[], stack_ids uuid[]) returns void language plpgsql set search_path from current as $$
begin
  perform from agents a where a.id = any(agent_ids) order by a.id for no key update;
  perform pg_advisory_xact_lock_shared(hashtextextended('brokkr:retarget:' || current_schema(), 0));
  perform from agent_stack_status s where (s.agent_id, s.stack_id) in (select * from unnest(agent_ids, stack_ids))
    order by s.stack_id, s.agent_id for no key update;
  perform from stack_summary m where (m.stack_id, m.slot) in (select p.stack_id, summary_slot(p.agent_id) from unnest(agent_ids, stack_ids) as p (agent_id, stack_id))
    order by m.stack_id, m.slot for no key update;
end $$;

-- A new revision wakes the pairs that were removed.
create or replace function feed_objects_insert() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from new_rows n left join stacks s on s.id = n.stack_id and s.last_sequence = n.sequence_id and s.sequence_xid = pg_current_xact_id()
             where s.id is null) then
    raise exception 'a deployment object must carry the number its transaction took from the stack' using errcode = 'BK003';
  end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'stack', stack_id, 'deployment_object', id, 'insert' from new_rows;
  update agent_stack_status s set phase = 'pending', code = 'applying', message = null
    from (select r.agent_id, r.stack_id from new_rows n join agent_stack_status r on r.stack_id = n.stack_id
          where r.phase = 'removed' and not n.is_deletion_marker
            and exists (select from agent_targets t where t.agent_id = r.agent_id and t.stack_id = r.stack_id)
          order by r.stack_id, r.agent_id for no key update of r) woken
    where s.agent_id = woken.agent_id and s.stack_id = woken.stack_id;
  perform move_summary((select array_agg(n.stack_id) from new_rows n join stacks k on k.id = n.stack_id and k.head_object_id = n.id));
  return null;
end $$;
