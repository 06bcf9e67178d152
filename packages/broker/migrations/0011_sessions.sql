-- Console sessions: the hash of a token in a cookie. A session depends on a PAK: when that PAK is replaced or deleted, the session is deleted
-- in the same transaction, and a control row tells every broker process.

create table console_sessions (
  id uuid primary key,
  token_hash text not null constraint unique_session_token unique,
  identity_kind text not null check (identity_kind in ('admin', 'generator')),
  identity_id uuid not null,
  readonly boolean not null,
  expires_at timestamptz not null,
  idle_until timestamptz not null,
  created_at timestamptz not null default now()
);
create index console_sessions_by_end on console_sessions (expires_at);
create index console_sessions_by_identity on console_sessions (identity_kind, identity_id, created_at desc);

create function feed_sessions_delete() returns trigger language plpgsql set search_path from current as $$
begin
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op)
    select 'control', '00000000-0000-0000-0000-000000000000', 'session', id, 'delete' from old_rows;
  return null;
end $$;
create trigger feed_delete after delete on console_sessions referencing old table as old_rows for each statement execute function feed_sessions_delete();

create function end_sessions() returns trigger language plpgsql set search_path from current as $$
begin
  delete from console_sessions s using old_rows o join new_rows n using (id)
    where s.identity_kind = tg_argv[0] and s.identity_id = n.id
      and (n.pak_hash is distinct from o.pak_hash or n.deleted_at is distinct from o.deleted_at);
  return null;
end $$;
create trigger end_sessions after update on admin_role referencing old table as old_rows new table as new_rows for each statement execute function end_sessions('admin');
create trigger end_sessions after update on generators referencing old table as old_rows new table as new_rows for each statement execute function end_sessions('generator');
