-- A backup that is put back in place keeps system identifier and timeline, and its transactions take the numbers once more that the lost
-- ones had. What it cannot do without is a start of the server: every start is a boot here, cursors say of which boot they are, and one
-- that saw more than its boot left behind is of another history. A dump that is loaded, or a database that is copied, is told by its row
-- here: another transaction wrote it than it says, or it lies in another database.
create table feed_boots (
  boot uuid primary key,
  server_started_at timestamptz not null,
  database_oid oid not null,
  written_xid xid8 not null,
  -- The first transaction that none of its cursors can have seen; null while it runs.
  ended_xid xid8,
  noticed_at timestamptz not null default now()
);
-- Null until a broker has looked.
alter table feed_state add column boot uuid;
