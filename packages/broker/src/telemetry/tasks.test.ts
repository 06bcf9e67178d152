import { openDatabase } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { expect, test } from 'vitest'
import { telemetryCleanup } from './tasks.ts'

test('the clean-up drops old hours, deletes unpartitioned old rows and creates the next hours', async () => {
  const { url, connect } = await database()
  const sql = openDatabase({ url, schema: 'public', poolSize: 2 })
  const client = await connect()
  try {
    await client.query(`
      select make_telemetry_partitions('agent_pod_logs', now() - interval '8 hours', 1);
      insert into agent_pod_logs (id, created_at, agent_id, stack_id, namespace, pod, container, ts, line_sealed)
        select gen_random_uuid(), now() - age * interval '1 hour', gen_random_uuid(), gen_random_uuid(), 'n', 'p', 'c', now(), '' from unnest(array[20, 8, 5, 0]) age;`)
    // Whether the clean-up runs in this hour or, begun at its end, in the next one: it creates the two hours after this one.
    const { rows: hours } = await client.query<{ name: string }>(
      `select 'agent_k8s_events_' || to_char((now() + n * interval '1 hour') at time zone 'UTC', 'YYYYMMDDHH24') as name
       from generate_series(1, 2) n`,
    )
    for (const { name } of hours) await client.query(`drop table if exists ${name}`)
    const metrics = createMetrics()
    const task = telemetryCleanup({ sql, clock: systemClock, metrics }, { everyMs: () => 60_000, retentionSeconds: () => 21_600 })
    const counts = await task.run(new AbortController().signal)
    // The hours that began eight and seven hours ago have ended; the row of twenty hours ago had no partition.
    expect(counts['dropped']).toBeGreaterThanOrEqual(2)
    const left = await client.query<{ n: number }>(
      `select count(*)::int as n from agent_pod_logs where created_at < now() - interval '7 hours'`,
    )
    expect(left.rows[0]?.n).toBe(0)
    const recent = await client.query<{ n: number }>(
      `select count(*)::int as n from agent_pod_logs where created_at > now() - interval '6 hours'`,
    )
    expect(recent.rows[0]?.n).toBe(2)
    const { rows } = await client.query<{ count: number }>(
      'select count(*)::int as count from unnest($1::text[]) name where to_regclass(name) is not null',
      [hours.map(({ name }) => name)],
    )
    expect(rows[0]?.count).toBe(2)
    expect((await task.run(new AbortController().signal))['dropped']).toBe(0)
    const text = await metrics.text()
    expect(text).toContain('brokkr_ws_log_eviction_runs_total 2')
    expect(text).toMatch(/brokkr_ws_telemetry_evicted_total\{table="agent_pod_logs"\} [1-9]/)
  } finally {
    await client.end()
    await sql.close()
  }
})
