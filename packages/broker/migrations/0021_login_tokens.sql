-- Sign-in links: the hash of a one-time token and the PAK whose rights its session gets. The short part of the token finds the row, so that
-- wrong tries are counted; a link with five of them is no longer valid. Links of a PAK that is replaced or deleted are deleted with it.

create table login_tokens (
  id uuid primary key,
  kind text not null check (kind in ('link')),
  token_short text not null,
  token_hash text not null constraint unique_login_token unique,
  identity_kind text not null check (identity_kind in ('admin', 'generator')),
  identity_id uuid not null,
  readonly boolean not null,
  tries int not null default 0,
  expires_at timestamptz not null,
  used_at timestamptz,
  created_at timestamptz not null default now()
);
create index login_tokens_by_short on login_tokens (token_short);
create index login_tokens_by_end on login_tokens (expires_at);
create index login_tokens_by_identity on login_tokens (identity_kind, identity_id, created_at desc);

create function end_login_tokens() returns trigger language plpgsql set search_path from current as $$
begin
  delete from login_tokens t using old_rows o join new_rows n using (id)
    where t.identity_kind = tg_argv[0] and t.identity_id = n.id
      and (n.pak_hash is distinct from o.pak_hash or n.deleted_at is distinct from o.deleted_at);
  return null;
end $$;
create trigger end_login_tokens after update on admin_role referencing old table as old_rows new table as new_rows for each statement execute function end_login_tokens('admin');
create trigger end_login_tokens after update on generators referencing old table as old_rows new table as new_rows for each statement execute function end_login_tokens('generator');
