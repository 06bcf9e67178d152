// What the feed tells of itself, and the alerts that rest on it.
import { readFileSync } from 'node:fs'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { readWatch } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__CANARY_SECONDS: '0.2', BROKKR__FEED__PING_SECONDS: '0.2' })
  return () => world.broker.kill()
})
const metrics = async () => (await fetch(`${world.broker.url}/metrics`)).text()

const promised = [
  ...[
    'lag_seconds',
    'polls_total',
    'rows_total',
    'inflight_entries',
    'oldest_xid_seconds',
    'batch_seconds',
    'ring_hits_total',
    'epoch_info',
    'floor_age_seconds',
    'listener_up',
  ].map((name) => `brokkr_feed_${name}`),
  ...[
    'open',
    'starts_total',
    'closes_total',
    'pending_keys',
    'buffered_bytes',
    'snapshots_waiting',
    'frames_total',
    'nacks_total',
    'digest_checks_total',
    'propagation_seconds',
  ].map((name) => `brokkr_stream_${name}`),
]

test('feed metrics are updated, and alerts reference existing metrics', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const stream = await world.follow(agent)
  const { session } = await stream.frame('hello')
  const { cursor, count } = await stream.frame('snapshot_end')
  const watch = await readWatch(world.broker.url, { pak: world.broker.adminPak, scopes: ['kind:stack'] })
  await watch.frame('hello')
  const object = await world.submit(stack.id, 'x')
  await stream.frame('put', (frame) => frame.object?.id === object.id)
  const report = (n: number, row: object, more: object = {}) =>
    agent.client.reportStatus({
      params: { id: agent.agent.id },
      body: {
        session,
        n,
        stacks: [{ stack_id: stack.id, rev: 1, object_id: object.id, observed_at: new Date().toISOString(), ...row } as never],
        ...more,
      },
    })
  await report(1, { phase: 'held', code: 'prune_guard' }, { echo: Date.now(), check: { cursor, count, digest: '0'.repeat(64) } })
  await report(2, { phase: 'applied' })
  await world.broker.admin.newEpoch({})
  await stream.frame('bye')
  const text = await waitFor('the figures', async () => {
    const now = await metrics()
    return /brokkr_feed_epochs_total 1/.test(now) && /stage="seen"/.test(now) && now
  })
  for (const name of promised) expect(text, name).toContain(`# TYPE ${name} `)
  const moved = [
    /brokkr_stream_starts_total\{mode="snapshot",reason="first"\} 1/,
    /brokkr_stream_starts_total\{mode="reset",reason="none"\} 1/,
    /brokkr_stream_closes_total\{reason="epoch"\} 2/,
    /brokkr_stream_frames_total\{type="put"\} [1-9]/,
    /brokkr_stream_nacks_total\{code="prune_guard"\} 1/,
    /brokkr_stream_digest_checks_total\{result="(moved|mismatch)"\} 1/,
    /brokkr_feed_listener_up 1/,
    ...['written', 'received', 'applied', 'seen'].map(
      (stage) => new RegExp(`brokkr_stream_propagation_seconds_count\\{stage="${stage}"\\} [1-9]`),
    ),
  ]
  for (const figure of moved) expect(text).toMatch(figure)
  const alerts = readFileSync(new URL('../../../../docs/alerts/feed.yaml', import.meta.url), 'utf8')
  const used = [...alerts.matchAll(/expr:[\s\S]*?(?=\n {8}\w)/g)].flatMap(([rule]) => rule.match(/brokkr_\w+/g) ?? [])
  expect(new Set(used).size).toBe(7)
  for (const name of used) expect(text, name).toContain(`# TYPE ${name} `)
  watch.close()
})
