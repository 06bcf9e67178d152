// The start of a stream, held at every statement it makes while the world changes: whatever happens between any two steps must be in
// what the agent has in the end. The feed runs in this process, on a real database, so that each statement can be held.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Database, openDatabase, type Sql } from '@brokkr/postgres'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { brokerTable } from '../../config.ts'
import { createManifestCache, type ManifestCache } from '../../deployments/manifest-cache.ts'
import { createSeal, type Seal } from '../../seal.ts'
import { type ChangeFeed, createChangeFeed } from '../change-feed.ts'
import { signCursor } from '../reader/cursor.ts'

type When = 'before' | 'after'
/** Holds the next statement of a name, once. */
class Gate {
  #armed: { step: string; reached: () => void; released: Promise<void> } | null = null

  arm(step: string): { reached: Promise<void>; release: () => void } {
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    this.#armed = { step, reached: reached.resolve, released: released.promise }
    return { reached: reached.promise, release: released.resolve }
  }

  async pass(when: When, name: string): Promise<void> {
    if (this.#armed?.step !== `${when} ${name}`) return
    const { reached, released } = this.#armed
    this.#armed = null
    reached()
    await released
  }
}

const gate = new Gate()
const held = <S extends Sql>(sql: S): S => ({
  ...sql,
  query: async (named) => {
    await gate.pass('before', named.name)
    const result = await sql.query(named)
    await gate.pass('after', named.name)
    return result
  },
})

let world: FeedWorld
let feed: ChangeFeed
let url: string
beforeAll(async () => {
  world = await feedWorld()
  const { value: config } = await loadConfig({
    table: brokerTable,
    env: { DATABASE_URL: world.db.url, BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey, BROKKR__FEED__PING_SECONDS: '0.2' },
  })
  const database: Database = openDatabase({ url: world.db.url, schema: 'public', poolSize: 5 })
  feed = createChangeFeed({
    database: held(database),
    snapshotSql: held(database),
    texts: readAlways(createSeal([Buffer.from(world.broker.encryptionKey, 'hex')])),
    clock,
    log,
    metrics: createMetrics(),
    schema: 'public',
    settings: config.feed,
    objectBytesMax: config.limits.object_body_bytes,
    brokerName: 'in this process',
  })
  feed.start()
  const server = createServer((request, response) => {
    const asked = new URL(request.url ?? '/', 'http://feed')
    const agentId = asked.pathname.split('/')[4]!
    const cursor = asked.searchParams.get('cursor') ?? undefined
    const wish = { cursor, reason: undefined, holds: null, format: 'ndjson', waitMs: null } as const
    feed.openStream(() => response, { agentId, endsAtMs: null }, wish).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await waitFor('the feed', () => feed.getTrouble() === null)
  return async () => {
    server.closeAllConnections()
    server.close()
    await feed.stop()
    await database.close()
    await world.broker.kill()
  }
})
/** Nothing is kept, so that every start has its step of reading texts. */
function readAlways(seal: Seal): ManifestCache {
  const texts = createManifestCache({ seal, clock })
  return { ...texts, load: (sql, ids) => texts.load(sql, ids).finally(() => texts.forget()) }
}
const follow = ({ agent, pak }: TestAgent, cursor?: string): Promise<StreamReader> =>
  readStream(url, { agentId: agent.id, pak, ...(cursor === undefined ? {} : { cursor }) })

/** Each statement between the request and the first load by the reader. */
const shared = ['feed_state.nextSession', 'desired_state.markScopes', 'desired_state.listLiveTargets', 'desired_state.readDesiredStates']
const ofSnapshot = ['desired_state.listForAgent', 'prune_approvals.claimRemovals', 'target_state.listSealed', ...shared]
const ofResume = ['desired_state.scopesOfAgent', ...shared]
const ofOldResume = ['change_log.sinceForAgent', ...ofResume]
const steps = (names: readonly string[]) => names.flatMap((name) => [`before ${name}`, `after ${name}`])

/** While the reader itself is held it can tell nobody; then nothing is waited for. */
const isOfReader = (step: string) => step.includes('listLiveTargets') || step.includes('readDesiredStates')

test('[S8] a stream delayed at any step of its start includes concurrent changes', async () => {
  for (const [how, list] of [
    ['snapshot', ofSnapshot],
    ['resume', ofResume],
    ['resume of what is no longer in memory', ofOldResume],
  ] as const) {
    for (const step of steps(list)) await holdAt(how, step)
  }
}, 300_000)

test('a stream whose epoch changes during its start ends without a frame', async () => {
  for (const how of ['snapshot', 'resume'] as const) {
    const label = unique('l')
    await world.submit((await world.stack([label])).id, 'x')
    const [agent, bystander] = [await world.agent([label]), await world.agent([label])]
    const cursor = how === 'snapshot' ? undefined : await cursorOf(how, agent)
    const witness = await follow(bystander)
    await witness.frame('bookmark')
    // What is known of the feed was looked at, and nobody can tell this stream to go yet.
    const { reached, release } = gate.arm('before feed_state.nextSession')
    const opening = follow(agent, cursor)
    await within(reached, how)
    await world.broker.admin.newEpoch({})
    expect((await witness.frame('bye')).reason).toBe('epoch')
    release()
    const stream = await opening
    await stream.ended
    // A ping may come in between on a slow machine; it says nothing of any history.
    expect(stream.frames.map(({ type }) => type).filter((type) => type !== 'ping')).toEqual(['hello', 'bye'])
    const again = await follow(agent, cursor)
    await again.frame('snapshot_end')
    expect(await again.frame('hello')).toMatchObject({ mode: 'snapshot', reason: how === 'snapshot' ? 'first' : 'epoch' })
    again.close()
  }
})

async function holdAt(how: 'snapshot' | 'resume' | 'resume of what is no longer in memory', step: string): Promise<void> {
  const label = unique('l')
  const [changed, leaving] = [await world.stack([label]), await world.stack([label])]
  for (const { id } of [changed, leaving]) await world.submit(id, 'before')
  const [agent, bystander] = [await world.agent([label]), await world.agent([label])]
  const witness = await follow(bystander)
  await witness.frame('bookmark')
  const cursor = how === 'snapshot' ? undefined : await cursorOf(how, agent)
  // Something to load for whoever resumes.
  if (cursor !== undefined) await witnessed(witness, (await world.submit(changed.id, 'away')).id)
  // The reader has nothing to load for a stream that noted nothing while it started.
  const noting = how === 'snapshot' && isOfReader(step) ? gate.arm('after desired_state.listForAgent') : null
  let { reached, release } = noting ?? gate.arm(step)
  const opening = follow(agent, cursor)
  await within(reached, `${how}: ${step}`)
  if (noting !== null) {
    await witnessed(witness, (await world.submit(changed.id, 'noted')).id)
    ;({ reached, release } = gate.arm(step))
    noting.release()
    await within(reached, `${how}: ${step}`)
  }
  const object = await world.submit(changed.id, 'while held')
  const added = await world.stack([label])
  const addedObject = await world.submit(added.id, 'added')
  await world.tenant.client.stacksRemoveLabel({ params: { id: leaving.id, label } })
  if (!isOfReader(step)) {
    await witnessed(witness, object.id)
    await witnessed(witness, addedObject.id)
    await witness.frame('del', (frame) => frame.stack_id === leaving.id)
  }
  const pauseMs = size('S8.pauseMs')
  if (pauseMs !== null) await clock.sleep(pauseMs)
  release()
  const stream = await opening
  const known = new Map(cursor === undefined ? [] : [[leaving.id, 1]])
  await waitFor(
    `${how} held ${step}: the synced agent has all three`,
    () => {
      const wanted = stream.wanted()
      const isGone =
        stream.frames.some((frame) => frame.type === 'del' && frame.stack_id === leaving.id) ||
        (!known.has(leaving.id) && !wanted.has(leaving.id) && isLive(stream))
      return (
        wanted.get(changed.id)?.objectId === object.id &&
        wanted.get(added.id)?.objectId === addedObject.id &&
        isGone &&
        !wanted.has(leaving.id)
      )
    },
    { onTimeout: () => stream.frames.map((frame) => `${frame.type} ${'stack_id' in frame ? frame.stack_id : ''}`).join('\n') },
  )
  expect(stream.frames.filter((frame) => frame.type === 'bye')).toEqual([])
  stream.close()
  witness.close()
}

/** A step that is never reached must not hang the test. */
async function within(reached: Promise<void>, what: string): Promise<void> {
  let isReached = false
  void reached.then(() => (isReached = true))
  await waitFor(what, () => isReached)
}
const witnessed = (witness: StreamReader, id: string) => witness.frame('put', (frame) => frame.object?.id === id)
const isLive = (stream: StreamReader) => stream.frames.some((frame) => frame.type === 'bookmark')

async function cursorOf(how: string, agent: TestAgent): Promise<string> {
  if (how === 'resume') {
    const first = await follow(agent)
    const { cursor } = await first.frame('bookmark')
    first.close()
    return cursor
  }
  // Issued long before this process read anything: as after a restart, only the log knows what came since.
  const [state] = await world.sql<{ epoch: string; boot: string; key: Buffer }>('select epoch, boot, cursor_key as key from feed_state')
  const { epoch, boot, key } = state!
  return signCursor(key, { epoch, boot, snapshot: { xmin: 3n, xmax: 3n, inFlight: [] } })
}
