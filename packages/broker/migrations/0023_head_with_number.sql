-- A submission takes its number and becomes the head in one update of the stack, before its revision is inserted: the triggers on stacks
-- cost more than the row. The counts follow the head once that revision is there, behind the pairs it wakes, so that locks are taken in
-- the one order: status → summary.
create or replace function count_stacks_update() returns trigger language plpgsql set search_path from current as $$
declare
  moved uuid[] := (select array_agg(n.id) from old_rows o join new_rows n using (id)
    where n.head_object_id is distinct from o.head_object_id
      and (n.head_object_id is null or exists (select from deployment_objects d where d.id = n.head_object_id)));
begin
  perform move_summary(moved);
  return null;
end $$;

-- A new head: nobody has it yet.
create function move_summary(moved uuid[]) returns void language plpgsql set search_path from current as $$
begin
  if moved is null then
    return;
  end if;
  perform from stack_summary s where s.stack_id = any(moved) order by s.stack_id, s.slot for no key update;
  update stack_summary s set object_id = k.head_object_id, current = 0 from stacks k where k.id = s.stack_id and s.stack_id = any(moved);
end $$;

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
  perform move_summary((select array_agg(n.stack_id) from new_rows n join stacks k on k.id = n.stack_id and k.head_object_id = n.id));
  return null;
end $$;

-- A revision never changes in any column but the day it was deleted, set once; sealing the same text anew (key rotation) is no change.
create or replace function refuse_object_change() returns trigger language plpgsql as $$
declare
  is_reseal boolean := new.yaml_sealed is distinct from old.yaml_sealed;
  is_deletion boolean := old.deleted_at is null and new.deleted_at is not null;
begin
  if (new.id, new.stack_id, new.sequence_id, new.yaml_checksum, new.yaml_bytes, new.is_deletion_marker, new.submitted_at, new.created_at, new.created_by_kind)
       = (old.id, old.stack_id, old.sequence_id, old.yaml_checksum, old.yaml_bytes, old.is_deletion_marker, old.submitted_at, old.created_at, old.created_by_kind)
     and new.rollback_of is not distinct from old.rollback_of and new.created_by_id is not distinct from old.created_by_id
     and (is_deletion or new.deleted_at is not distinct from old.deleted_at)
     and (is_deletion or new.updated_at = old.updated_at)
     and (is_deletion <> is_reseal) and (not is_reseal or current_setting('brokkr.reseal', true) = 'on') then
    return new;
  end if;
  raise exception 'deployment objects are immutable' using errcode = 'BK001';
end $$;
