// The feed through a whole agent: a real broker behind a proxy that can lie, a real API server that writes down what it was asked.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { StackId } from '@brokkr/contract/wire.ts'
import { startTestBroker } from '@brokkr/testing/broker.ts'
import type { Fault } from '@brokkr/testing/faults/broker-proxy.ts'
import { type AuditedCluster, auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type LiveWorld, liveWorld } from '../test-parts/live-world.ts'

let at: AuditedCluster
let world: LiveWorld
beforeAll(async () => {
  at = await auditedCluster()
  // Whatever is larger than a small ConfigMap travels by address.
  world = await liveWorld(
    at,
    {
      BROKKR__AGENT__REFUSED_RETRY_SECONDS: '0.3',
      BROKKR__AGENT__FROZEN_AFTER_SECONDS: '86400',
      BROKKR__AGENT__REQUEST_TIMEOUT: '2',
      BROKKR__AGENT__TRANSPORT_RETRY_SECONDS: '1',
      BROKKR__AGENT__STREAM_SILENT_SECONDS: '3',
    },
    { BROKKR__FEED__INLINE_BYTES: '1000', BROKKR__FEED__PING_SECONDS: '0.5' },
  )
  return async () => {
    await world.stop()
    await at.stop()
  }
}, 240_000)

const sql = async (...texts: readonly (readonly [text: string, values?: readonly unknown[]])[]): Promise<void> => {
  const client = new pg.Client({ connectionString: world.broker.databaseUrl })
  await client.connect()
  try {
    await client.query('begin')
    for (const [text, values = []] of texts) await client.query(text, [...values])
    await client.query('commit')
  } finally {
    await client.end()
  }
}
const explain = () => world.explain()
const isStream = ({ path }: { path: string }) => path.endsWith('/stream')
const streams = () => world.proxy.requests.filter(isStream)
const ofWork = async (since: number) => (await world.writes(since)).filter(({ namespace }) => namespace === world.namespace)
/** In order: what was killed leaves a Lease that has to run out first. */
const restart = async (env: Record<string, string> = {}) => {
  await world.running.stop()
  world.running = await world.start(env)
}
const big = (name: string, value: string) => world.configMap(name, { value, padding: 'x'.repeat(2_000) })

test('[S6] stacks deleted before their latest object is applied are removed', async () => {
  const stacks = []
  for (let n = 0; n < 12; n += 1) stacks.push({ ...(await world.stack()), name: `short-${n}` })
  await Promise.all(
    stacks.map(async ({ id, name }) => {
      for (let rev = 1; rev <= 5; rev += 1) await world.submit(id, world.configMap(name, { rev: String(rev) }))
      await world.tenant.client.deleteStack({ params: { id: id } })
    }),
  )
  for (const { id } of stacks) {
    await waitFor(
      'the removal',
      async () => {
        const client = new pg.Client({ connectionString: world.broker.databaseUrl })
        await client.connect()
        const { rows } = await client.query<{ rev: string; phase: string }>(
          'select rev, phase from agent_stack_status where stack_id = $1',
          [id],
        )
        await client.end()
        return rows[0]?.phase === 'removed' && rows[0]
      },
      { limitMs: 90_000, onTimeout: explain },
    )
  }
  await world.deploy(1, 'after')
  expect((await world.names()).filter((name) => name.startsWith('short-'))).toEqual([])
}, 180_000)

test('[S20] a repeated frame or snapshot causes no second write', async () => {
  const stacks = await world.deploy(5, 'twice')
  // Every frame of a stack twice, and a complete list every second.
  world.proxy.break((request) =>
    isStream(request) ? { do: 'rewrite', line: (line) => (line.includes('"type":"put"') ? `${line}\n${line}` : line) } : { do: 'pass' },
  )
  await restart({ BROKKR__AGENT__SNAPSHOT_INTERVAL: '1' })
  await waitFor('a list', () => streams().some(({ query }) => query.get('reason') === 'daily'))
  await world.submit(stacks[0]!.id, world.configMap('twice-0', { changed: 'once' }))
  await world.reported(stacks[0]!.id, 'applied', 2)
  const changed = await world.read('twice-0')
  const since = await at.mark()
  const before = streams().length
  await waitFor(
    'more lists',
    () =>
      streams()
        .slice(before)
        .filter(({ query }) => query.get('reason') === 'daily').length >= 3,
    { limitMs: 60_000 },
  )
  expect(await ofWork(since)).toEqual([])
  expect((await world.read('twice-0'))?.metadata.resourceVersion).toBe(changed?.metadata.resourceVersion)
  world.proxy.heal()
  await restart()
}, 180_000)

test('[S25] a failing stack blocks no other, backs off, and its fix is applied at once', async () => {
  const [bad, good] = [await world.stack(), await world.stack()]
  const cursor = () =>
    streams()
      .findLast(({ query }) => query.has('cursor'))
      ?.query.get('cursor')
  await world.submit(bad.id, { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'bad', namespace: world.namespace }, data: { a: 1 } })
  await world.reported(bad.id, 'failed', 1)
  const told = async () => (await world.tenant.client.getStackStatus({ params: { id: bad.id } })).agents[0]!
  const pauses: number[] = []
  for (const attempts of [1, 2, 3, 4]) {
    const status = await waitFor(
      `attempt ${attempts}`,
      async () => {
        const now = await told()
        return now.attempts >= attempts && now.retry_at !== null && now
      },
      { limitMs: 60_000, onTimeout: explain },
    )
    expect(status).toMatchObject({ phase: 'failed', code: 'invalid' })
    pauses.push(Date.parse(status.retry_at!) - Date.parse(status.received_at!))
    await world.submit(good.id, world.configMap('good', { attempts: String(attempts) }))
    await world.reported(good.id, 'applied')
    await waitFor('the neighbour to flow', async () => (await world.read('good'))?.data?.['attempts'] === String(attempts))
  }
  // 1 s doubling, with jitter: the fourth is longer than the first could be; the bound of five minutes is a setting.
  expect(pauses.at(-1)!).toBeGreaterThan(2_000)
  expect((await fetch(`${world.running.healthUrl}/healthz`)).status).toBe(200)
  // The cursor moved past it: whoever comes back resumes behind the revision that failed.
  const before = cursor()
  world.proxy.cutOpen()
  await waitFor('a resume', () => cursor() !== before && cursor() !== undefined)
  // Its next try is seconds away; the fix does not wait for it.
  const { retry_at } = await waitFor(
    'a long pause',
    async () => {
      const now = await told()
      return now.retry_at !== null && Date.parse(now.retry_at) - Date.now() > 3_000 && now
    },
    { limitMs: 120_000 },
  )
  const fixed = await world.submit(bad.id, world.configMap('bad', { a: '1' }))
  await world.reported(bad.id, 'applied', fixed.sequence_id)
  expect(Date.now()).toBeLessThan(Date.parse(retry_at!))
}, 240_000)

test('[S26] unknown frames are ignored, and an invalid put ends the stream without a cursor', async () => {
  const [stack] = await world.deploy(1, 'frames')
  // An unknown type before every frame, unknown fields in each.
  world.proxy.break((request) =>
    isStream(request)
      ? { do: 'rewrite', line: (line) => `{"type":"hologram","of":"the future"}\n${line.replace(/\}$/, ',"later":{"a":1}}')}` }
      : { do: 'pass' },
  )
  world.proxy.cutOpen()
  await world.submit(stack!.id, world.configMap('frames-0', { n: 'with unknown frames' }))
  await world.reported(stack!.id, 'applied', 2)
  const open = streams().length
  await world.submit(stack!.id, world.configMap('frames-0', { n: 'and again' }))
  await world.reported(stack!.id, 'applied', 3)
  expect(streams().length).toBe(open)

  // A put that lacks its rev: never skipped.
  const withoutRev = (line: string) => (line.includes('"type":"put"') ? line.replace(/"rev":\d+,/, '') : line)
  world.proxy.break((request) => (isStream(request) ? { do: 'rewrite', line: withoutRev } : { do: 'pass' }))
  world.proxy.cutOpen()
  await waitFor('a stream through it', () => streams().length > open)
  const since = streams().length
  const broken = await world.submit(stack!.id, world.configMap('frames-0', { n: 'without rev' }))
  await waitFor('reconnects', () => streams().length >= since + 3, { limitMs: 60_000, onTimeout: explain })
  const cursors = streams()
    .slice(since)
    .map(({ query }) => query.get('cursor'))
  expect(new Set(cursors.slice(0, 2)).size).toBe(1)
  expect(cursors[0]).not.toBeNull()
  expect((await world.read('frames-0'))?.data?.['n']).toBe('and again')
  world.proxy.heal()
  await world.reported(stack!.id, 'applied', broken.sequence_id)

  // A kind that the cluster does not know: told for that stack, and the stream lives.
  const odd = await world.stack()
  const alive = streams().length
  await world.submit(odd.id, { apiVersion: 'example.com/v1', kind: 'Hologram', metadata: { name: 'h', namespace: world.namespace } })
  await world.reported(odd.id, 'failed')
  expect((await world.status(odd.id))?.code).toBe('missing_kind')
  await world.submit(stack!.id, world.configMap('frames-0', { n: 'beside it' }))
  await world.reported(stack!.id, 'applied', broken.sequence_id + 1)
  expect(streams().length).toBe(alive)
}, 240_000)

test('an object that the broker cannot send keeps the applied one and reports a failure', async () => {
  const [stack] = await world.deploy(1, 'skipped')
  await sql([
    `with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = $1 returning *)
     insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     select head_object_id, id, last_sequence, '\\x00', 10, repeat('0', 64), 'admin' from taken`,
    [stack!.id],
  ])
  await world.reported(stack!.id, 'failed')
  expect((await world.status(stack!.id))?.code).toBe('unreadable')
  // It is looked at and healed meanwhile, and still stands as failed.
  const { uid } = (await world.read('skipped-0'))!.metadata
  await at.api('DELETE', `/api/v1/namespaces/${world.namespace}/configmaps/skipped-0`)
  await waitFor('the healed object', async () => ((await world.read('skipped-0')) ?? { metadata: { uid } }).metadata.uid !== uid)
  const reports = () => world.proxy.requests.filter(({ path }) => path.endsWith('/status')).length
  const before = reports()
  await waitFor('further reports', () => reports() > before + 1)
  expect(await world.status(stack!.id)).toMatchObject({ phase: 'failed', code: 'unreadable' })
  const { sequence_id } = await world.submit(stack!.id, world.configMap('skipped-0', { n: 'next' }))
  await world.reported(stack!.id, 'applied', sequence_id)
}, 180_000)

test('[S24] content or a stream that fails with any status or hangs removes nothing', async () => {
  const stacks = await world.deploy(3, 'kept')
  await world.submit(stacks[0]!.id, big('kept-0', '0'))
  await world.reported(stacks[0]!.id, 'applied', 2)
  const since = await at.mark()
  const faults: Fault[] = [404, 401, 403, 500].map((status) => ({
    do: 'answer',
    status,
    body: '{"code":"x","message":"no"}',
    headers: { 'content-type': 'application/json' },
  }))
  let sequence = 2
  for (const part of [/\/deployment-objects\//, /\/stream$/]) {
    for (const fault of [...faults, { do: 'hang' } satisfies Fault]) {
      let wrong = 0
      world.proxy.break(({ path }) => {
        if (!part.test(path)) return { do: 'pass' }
        wrong += 1
        return fault
      })
      world.proxy.cutOpen()
      sequence = (await world.submit(stacks[0]!.id, big('kept-0', String(sequence)))).sequence_id
      await waitFor(`wrong answers: ${part} ${JSON.stringify(fault)}`, () => wrong >= 2, { limitMs: 90_000, onTimeout: explain })
      world.proxy.heal()
      world.proxy.cutOpen()
      await world.reported(stacks[0]!.id, 'applied', sequence)
    }
  }
  expect((await world.deletes(since)).filter(({ namespace }) => namespace === world.namespace)).toEqual([])
  expect(await world.names()).toEqual(expect.arrayContaining(stacks.map(({ name }) => name)))
}, 400_000)

test('[S23] an agent with a missing row, a restored database or another id removes nothing', async () => {
  const stacks = await world.deploy(3, 'row')
  const since = await at.mark()
  const { id } = world.agent.agent
  const foreign = '0a000000-0000-4000-8000-0000000000ff'
  const stranger = await startTestBroker()
  const tables = ['agent_liveness', 'agent_targets', 'agent_labels', 'agent_generator_registrations', 'agent_stack_status']
  const rename = (from: string, to: string) =>
    [
      [`set local session_replication_role = 'replica'`] as const,
      [`update agents set id = $2 where id = $1`, [from, to]] as const,
      ...tables.map((table) => [`update ${table} set agent_id = $2 where agent_id = $1`, [from, to]] as const),
      [`set local session_replication_role = 'origin'`] as const,
      // As any process writes it that changes who a key belongs to.
      [
        `insert into change_log (scope_kind, scope_id, object_kind, object_id, op) values ('control', '00000000-0000-0000-0000-000000000000', 'agent', $1, 'update')`,
        [from],
      ] as const,
    ] as const
  const cases: Record<string, { statuses: number[]; begin: () => Promise<void>; end: () => Promise<void> }> = {
    'its row is missing': {
      statuses: [401],
      begin: () => sql(['update agents set deleted_at = now() where id = $1', [id]]),
      end: () => sql(['update agents set deleted_at = null where id = $1', [id]]),
    },
    'the database is an old restore': {
      statuses: [401],
      begin: async () => world.proxy.target(stranger.url),
      end: async () => world.proxy.target(world.broker.url),
    },
    'its id changed': { statuses: [401, 403, 404], begin: () => sql(...rename(id, foreign)), end: () => sql(...rename(foreign, id)) },
  }
  for (const [what, { statuses, begin, end }] of Object.entries(cases)) {
    const before = streams().length
    const startedMs = performance.now()
    await begin()
    world.proxy.cutOpen()
    await waitFor(
      `refusals: ${what}`,
      () =>
        streams()
          .slice(before)
          .filter(({ status }) => statuses.includes(status ?? 0)).length >= 6,
      {
        limitMs: 90_000,
        onTimeout: () =>
          `${JSON.stringify(
            streams()
              .slice(before)
              .map(({ status }) => status),
          )}\n${world.explain()}`,
      },
    )
    // Three tries with jitter, then the pause of a refused key before each: no hammering.
    expect(performance.now() - startedMs).toBeGreaterThan(600)
    expect(await world.names()).toEqual(expect.arrayContaining(stacks.map(({ name }) => name)))
    expect((await world.deletes(since)).filter(({ namespace }) => namespace === world.namespace)).toEqual([])
    await end()
    world.proxy.cutOpen()
    const { sequence_id } = await world.submit(stacks[0]!.id, world.configMap('row-0', { after: what }))
    await world.reported(stacks[0]!.id, 'applied', sequence_id)
  }
  // What was healed by an order must not have been a coincidence of nobody looking: a real removal still works.
  await world.tenant.client.deleteStack({ params: { id: stacks[2]!.id } })
  await waitFor('the real removal', async () => !(await world.names()).includes('row-2'), { limitMs: 60_000, onTimeout: explain })
  expect(
    (await world.deletes(since))
      .filter(({ namespace, resource }) => namespace === world.namespace && resource === 'configmaps')
      .map(({ name }) => name),
  ).toEqual(['row-2'])
  await stranger.kill()
}, 300_000)

test('[S44] a Deployment shared by two stacks is never absent while labels move', async () => {
  const deployment = (name: string, replicas: number) => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name, namespace: world.namespace },
    spec: {
      replicas,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c', image: 'example.com/c:1' }] } },
    },
  })
  const params = { id: world.agent.agent.id }
  type Pair = { x: StackId; y: StackId; from: string; to: string }
  const moves: Record<string, (pair: Pair) => Promise<void>> = {
    // One commit, as targeting writes it: the pair with Y begins, the pair with X ends.
    atonce: ({ x, y, from, to }) =>
      sql(
        ['update agent_labels set label = $2 where agent_id = $1 and label = $3', [params.id, to, from]],
        ['delete from agent_targets where stack_id = $1', [x]],
        ['insert into agent_targets (id, agent_id, stack_id, by_label) values (gen_random_uuid(), $1, $2, true)', [params.id, y]],
      ),
    // By two calls: for a moment both are wanted, and Y must wait for what X has.
    bytwo: async ({ y, from, to }) => {
      await world.broker.admin.agentsAddLabel({ params, body: { agent_id: params.id, label: to } })
      await waitFor('Y to wait', async () => (await world.status(y))?.code === 'owned_by_other_stack', {
        limitMs: 60_000,
        onTimeout: explain,
      })
      await world.broker.admin.agentsRemoveLabel({ params: { id: params.id, label: from } })
    },
  }
  for (const [how, move] of Object.entries(moves)) {
    const path = `/apis/apps/v1/namespaces/${world.namespace}/deployments/api-${how}`
    const [from, to] = [`from-${how}`, `to-${how}`]
    const make = (label: string) =>
      world.tenant.client.createStack({ body: { name: `${label}-stack`, generator_id: world.tenant.generator.id, labels: [label] } })
    const [x, y] = [await make(from), await make(to)]
    await world.submit(x.id, deployment(`api-${how}`, 1), world.configMap(`only-x-${how}`))
    await world.submit(y.id, deployment(`api-${how}`, 2), world.configMap(`only-y-${how}`))
    await world.broker.admin.agentsAddLabel({ params, body: { agent_id: params.id, label: from } })
    await world.reported(x.id, 'applied', 1)
    const { uid } = ((await at.api('GET', path)).json as { metadata: { uid: string } }).metadata
    const since = await at.mark()
    await move({ x: x.id, y: y.id, from, to })
    await world.reported(y.id, 'applied', 1)
    await waitFor('what X alone had to go', async () => !(await world.names()).includes(`only-x-${how}`), {
      limitMs: 60_000,
      onTimeout: explain,
    })
    await waitFor('X to be told as removed', async () => (await world.status(x.id)) === undefined, { limitMs: 60_000 })
    const after = (await at.api('GET', path)).json as {
      metadata: { uid: string; labels: Record<string, string> }
      spec: { replicas: number }
    }
    expect(after.metadata.uid).toBe(uid)
    expect(after.spec.replicas).toBe(2)
    expect(after.metadata.labels['brokkr.io/stack']).toBe(y.id)
    const deleted = (await world.deletes(since)).filter(({ namespace }) => namespace === world.namespace)
    expect(deleted.map(({ resource, name }) => `${resource}/${name}`)).toEqual([`configmaps/only-x-${how}`])
  }
}, 180_000)

test('[S19] an intact state file resumes without writes, and a torn one is ignored', async () => {
  const stateDir = join(await callServers('loan.folder', { kind: 'plain' }), 'state')
  const env = { BROKKR__AGENT__STATE_DIR: stateDir }
  await restart(env)
  const [stack] = await world.deploy(1, 'state')
  const files = async () => (await import('node:fs/promises')).readdir(stateDir).catch(() => [])
  const [file] = await waitFor('a state file', async () => {
    const found = (await files()).filter((name) => !name.endsWith('.tmp'))
    return found.length > 0 && found
  })
  const path = join(stateDir, file!)
  // Saved after the last change: a stop writes it.
  expect(await world.running.stop()).toBe(0)
  for (const kind of ['intact', 'torn'] as const) {
    if (kind === 'torn') {
      const whole = await readFile(path)
      await writeFile(path, whole.subarray(0, Math.floor(whole.length / 2)))
    }
    const [since, before] = [await at.mark(), streams().length]
    world.running = await world.start(env)
    await waitFor('a stream', () => streams().length > before)
    expect(streams()[before]!.query.has('cursor')).toBe(kind === 'intact')
    const extra = await world.deploy(1, `state-${kind}`)
    const written = (await ofWork(since)).map(({ name }) => name)
    expect(new Set(written)).toEqual(new Set([extra[0]!.name]))
    expect(await world.read(stack!.name)).not.toBeNull()
    expect(await world.running.stop()).toBe(0)
  }
  world.running = await world.start()
}, 240_000)
