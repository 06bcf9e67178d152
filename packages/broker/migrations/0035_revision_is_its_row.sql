-- A revision is its own row of the feed (docs/decisions/0023). Written a second time into the log, it cost those who submit more than anything
-- else of the feed: a statement of its own, a row, its index. Now it says itself which transaction wrote it, and whoever reads the log asks for
-- revisions in the same statement, by the same two probes. Revisions that are here were told by the log, whose rows stay: transaction 0 is
-- no news to anybody.
alter table deployment_objects add column xid xid8 not null default '0';
alter table deployment_objects alter column xid set default pg_current_xact_id();
-- By the id too: a batch that is larger than a page is read on behind the last one.
create index deployment_objects_by_xid on deployment_objects (xid, id);

-- The number must be the one this transaction took from the stack, the revision must be the head by then, and it must name this very
-- transaction, or it would reach nobody; a new revision wakes the pairs that were removed. Before the row is written, since a trigger after it
-- would have it fetched once more.
drop trigger feed_insert on deployment_objects;
do $do$
begin
  execute format($create$
create or replace function feed_object_insert() returns trigger language plpgsql as $body$
declare
  is_special boolean;
begin
  select new.xid <> s.sequence_xid
      or not new.is_deletion_marker and exists (select from %1$I.agent_stack_status r where r.stack_id = new.stack_id and r.phase = 'removed')
    into is_special from %1$I.stacks s
    where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.head_object_id = new.id and s.sequence_xid = pg_current_xact_id();
  -- One question for what every submission passes: PostgreSQL makes each of them ready anew in every transaction.
  if is_special is not false then
    if is_special is null or new.xid <> pg_current_xact_id() then
      raise exception 'a deployment object must be the head of its stack and carry the number its transaction took from it' using errcode = 'BK003';
    end if;
    update %1$I.agent_stack_status s set phase = 'pending', code = 'applying', message = null
      from (select r.agent_id from %1$I.agent_stack_status r
            where r.stack_id = new.stack_id and r.phase = 'removed'
              and exists (select from %1$I.agent_targets t where t.agent_id = r.agent_id and t.stack_id = r.stack_id)
            order by r.agent_id for no key update of r) woken
      where s.agent_id = woken.agent_id and s.stack_id = new.stack_id;
  end if;
  return new;
end $body$
  $create$, current_schema());
end $do$;
create trigger feed_insert before insert on deployment_objects for each row execute function feed_object_insert();

-- As in 0023; a revision never becomes one of another transaction either.
create or replace function refuse_object_change() returns trigger language plpgsql as $$
declare
  is_reseal boolean := new.yaml_sealed is distinct from old.yaml_sealed;
  is_deletion boolean := old.deleted_at is null and new.deleted_at is not null;
begin
  if (new.id, new.stack_id, new.sequence_id, new.yaml_checksum, new.yaml_bytes, new.is_deletion_marker, new.submitted_at, new.created_at, new.created_by_kind, new.xid)
       = (old.id, old.stack_id, old.sequence_id, old.yaml_checksum, old.yaml_bytes, old.is_deletion_marker, old.submitted_at, old.created_at, old.created_by_kind, old.xid)
     and new.rollback_of is not distinct from old.rollback_of and new.created_by_id is not distinct from old.created_by_id
     and (is_deletion or new.deleted_at is not distinct from old.deleted_at)
     and (is_deletion or new.updated_at = old.updated_at)
     and (is_deletion <> is_reseal) and (not is_reseal or current_setting('brokkr.reseal', true) = 'on') then
    return new;
  end if;
  raise exception 'deployment objects are immutable' using errcode = 'BK001';
end $$;
