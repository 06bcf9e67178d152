import { openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { expect, onTestFinished, test } from 'vitest'
import * as liveStore from './store.ts'

test('agents that were heard at the same time are all found, page by page', async () => {
  const { url, connect } = await database()
  const client = await connect()
  const sql = openDatabase({ url, schema: 'public', poolSize: 1 })
  onTestFinished(async () => {
    await client.end()
    await sql.close()
  })
  const at = '2026-01-02T03:04:05.000000Z'
  await client.query(`
    insert into agents (id, name, cluster_name) select gen_random_uuid(), 'a' || n, 'c' from generate_series(1, 7) n;
    insert into agent_liveness (agent_id, last_seen_at) select id, '${at}' from agents`)
  const found: string[] = []
  let position = { since: '2026-01-02T03:04:04.000000Z', after_id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }
  for (;;) {
    const page = await liveStore.heardSince(sql, { ...position, limit: 3 })
    const last = page.at(-1)
    if (last === undefined) break
    found.push(...page.map(({ agent_id }) => agent_id))
    position = { since: last.last_seen_at, after_id: last.agent_id }
  }
  expect([found.length, new Set(found).size]).toEqual([7, 7])
})
