import { privatePostgres } from '@brokkr/testing/postgres.ts'
import { prepareOurs } from './bench/broker/servers.ts'
import { fill } from './bench/broker/fill.ts'
const postgres = await privatePostgres({ fsync: true, logicalReplication: false })
const ours = await prepareOurs()
const database = await postgres.database()
const broker = await ours.start(database.url)
await fill(database.url, ours.encryptionKey, { agents: 50, stacksPerAgent: 20, objectsPerStack: 1, otherStacks: 0, objectBytes: 500 })
await broker.kill()
const c = await database.connect()
await c.query('vacuum analyze')
const run = `do $$ declare ids uuid[] := (select array_agg(id) from stacks); o uuid; begin
 for i in 1..3000 loop o := gen_random_uuid();
 with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = o where id = ids[1 + i % cardinality(ids)] returning id, last_sequence)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
  select o, id, last_sequence, decode(repeat('ab', 530), 'hex'), 500, md5('a') || md5('b'), 'admin' from taken; end loop; end $$`
const plain = `create or replace function feed_object_insert() returns trigger language plpgsql set search_path from current as $$
begin
  perform from stacks s where s.id = new.stack_id and s.last_sequence = new.sequence_id and s.sequence_xid = pg_current_xact_id();
  if not found then raise exception 'a'; end if;
  insert into change_log (scope_kind, scope_id, object_kind, object_id, op) values ('stack', new.stack_id, 'deployment_object', new.id, 'insert');
  if not new.is_deletion_marker and exists (select from agent_stack_status r where r.stack_id = new.stack_id and r.phase = 'removed') then perform 1; end if;
  return null;
end $$;`
const setups: Record<string, string> = {
  none: plain + 'alter table deployment_objects disable trigger feed_insert',
  all: 'alter table deployment_objects enable trigger feed_insert',
  noset: 'alter function feed_object_insert() reset all',
  nocheck: plain.replace(/  perform from stacks.*\n.*\n/, '') + 'alter function feed_object_insert() reset all',
  onlyinsert: plain.replace(/  perform from stacks.*\n.*\n/, '').replace(/  if not new.*\n/, '') + 'alter function feed_object_insert() reset all',
  onlycheck: plain.replace(/  insert into.*\n/, '').replace(/  if not new.*\n/, '') + 'alter function feed_object_insert() reset all',
  empty: plain.replace(/  perform from stacks.*\n.*\n/, '').replace(/  insert into.*\n/, '').replace(/  if not new.*\n/, '') + 'alter function feed_object_insert() reset all',
}
const got: Record<string, number[]> = {}
for (let r = 0; r < 7; r++) for (const [name, sql] of Object.entries(setups)) {
  await c.query(sql)
  const t = performance.now(); await c.query(run); (got[name] ??= []).push((performance.now() - t) / 3)
  await c.query('vacuum stacks'); await c.query('checkpoint')
}
for (const [n, v] of Object.entries(got)) console.log(n, v.sort((a, b) => a - b)[3]!.toFixed(0), 'min', v[0]!.toFixed(0), 'us')
await c.end(); await postgres.stop()
