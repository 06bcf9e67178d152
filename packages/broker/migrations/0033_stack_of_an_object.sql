-- Whether the stack of a revision exists was asked twice with every submission: by the foreign key, which also locks the row and writes that to
-- the WAL, and by `feed_object_insert`, which asks for that very row, with the number and the head that its transaction left there. So the
-- key goes (docs/decisions/0020). What it did on the side of the stack stays:
alter table deployment_objects drop constraint deployment_objects_stack_id_fkey;

-- A purge on purpose begins with the revisions. Whoever adds one meanwhile has the stack's row locked, and this statement waits for it and sees it.
create function refuse_orphaned_objects() returns trigger language plpgsql set search_path from current as $$
begin
  if exists (select from old_rows o join deployment_objects d on d.stack_id = o.id) then
    raise exception 'a stack with revisions cannot be removed: remove these first' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
create trigger refuse_orphans after delete on stacks referencing old table as old_rows for each statement execute function refuse_orphaned_objects();

create function refuse_new_stack_id() returns trigger language plpgsql as $$
begin
  raise exception 'the id of a stack never changes' using errcode = 'foreign_key_violation';
end $$;
create trigger refuse_new_id before update of id on stacks for each row when (new.id is distinct from old.id) execute function refuse_new_stack_id();
