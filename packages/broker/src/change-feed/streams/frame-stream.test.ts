import { createHash } from 'node:crypto'
import { digestText } from '@brokkr/contract/feed/digest.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { openSubmission } from '@brokkr/testing/late-submission.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { openRaw } from '../../http/server/raw-http.fixture.ts'
import { parseCursor } from '../reader/cursor.ts'

let broker: TestBroker
let db: TestDatabase
let tenant: TestGenerator
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({
    databaseUrl: db.url,
    // Rows written by hand are announced by nobody.
    env: { BROKKR__FEED__PING_SECONDS: '0.2', BROKKR__FEED__POLL_MS: '200' },
  })
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

const yaml = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`
const makeStack = (labels: string[] = []) =>
  tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels } })
const submit = (stackId: string, value: string) =>
  tenant.client.createDeploymentObject({ params: { id: stackId }, body: { yaml_content: yaml(value) } })
const follow = ({ agent, pak }: TestAgent, cursor?: string): Promise<StreamReader> =>
  readStream(broker.url, { agentId: agent.id, pak, ...(cursor === undefined ? {} : { cursor }) })

const openLate = (stackId: string, value: string) =>
  openSubmission({ connect: db.connect, encryptionKey: broker.encryptionKey }, stackId, yaml(value))

test('a stream sends hello, a verified snapshot, then every change', async () => {
  const label = unique('l')
  const [first, second] = [await makeStack([label]), await makeStack([label])]
  const object = await submit(first.id, 'one')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  expect(stream.frames[0]?.type ?? (await stream.frame('hello')).type).toBe('hello')
  const end = await stream.frame('snapshot_end')
  const lines = [
    { stackId: first.id, rev: 1, object: { id: object.id, checksum: createHash('sha256').update(yaml('one')).digest('hex') } },
    { stackId: second.id, rev: 0, object: null },
  ]
  expect(end).toMatchObject({
    count: 2,
    removals: 0,
    unchanged: false,
    digest: createHash('sha256').update(digestText(lines)).digest('hex'),
  })
  const put = stream.frames.find((frame) => frame.type === 'put' && frame.stack_id === first.id)
  expect(put).toMatchObject({ rev: 1, object: { id: object.id, sequence_id: 1, yaml_content: yaml('one') } })

  const next = await submit(second.id, 'two')
  await stream.bookmarkAfter(await stream.frame('put', (frame) => frame.object?.id === next.id))
  stream.close()
})

/** The text of an HTTP answer's body in chunks, as far as it has come; throws where a chunk is not framed as its length says. */
function unchunked(text: string): string {
  let [at, body] = [0, '']
  for (;;) {
    const end = text.indexOf('\r\n', at)
    const length = Number.parseInt(text.slice(at, end), 16)
    if (end < 0 || end + 2 + length + 2 > text.length) return body
    if (text.slice(end + 2 + length, end + 4 + length) !== '\r\n') throw new Error(`a chunk of ${length} bytes does not end with its line`)
    body += text.slice(end + 2, end + 2 + length)
    at = end + 4 + length
  }
}

test.each([
  ['in chunks', '1.1', ''],
  ['in chunks behind another answer on the same connection', '1.1', 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n'],
  ['as plain lines to who speaks HTTP/1.0', '1.0', ''],
])('a stream comes %s, snapshot and changes alike', async (_, version, before) => {
  const label = unique('l')
  const stack = await makeStack([label])
  const { agent, pak } = await createAgent(broker, { labels: [label], generators: [tenant] })
  const raw = await openRaw(Number(new URL(broker.url).port))
  raw.send(`${before}GET /api/v1/agents/${agent.id}/stream HTTP/${version}\r\nHost: x\r\nAuthorization: Bearer ${pak}\r\n\r\n`)
  await raw.until(/"type":"bookmark"/)
  const objects = [await submit(stack.id, 'one'), await submit(stack.id, 'two')]
  await raw.until(new RegExp(`"id":"${objects[1]!.id}"[^]*"type":"bookmark"`))
  const text = raw.received()
  raw.socket.destroy()
  const body = text.slice(text.indexOf('\r\n\r\n', text.indexOf('application/x-ndjson')) + 4)
  const lines = (version === '1.0' ? body : unchunked(body)).split('\n').slice(0, -1)
  // The agent was made a moment ago: what its labels bring may be told at any time, and so may that we are here.
  const types = lines.map((line) => (JSON.parse(line) as { type: string }).type).filter((type) => type !== 'look' && type !== 'ping')
  expect(types.slice(0, 4)).toEqual(['hello', 'snapshot_begin', 'put', 'snapshot_end'])
  expect(types.slice(4)).toContain('put')
  expect(types).toContain('bookmark')
})

test('[S1] submissions that commit in reverse order both arrive', async () => {
  const label = unique('l')
  const [slowStack, fastStack] = [await makeStack([label]), await makeStack([label])]
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  await stream.frame('snapshot_end')
  const slow = await openLate(slowStack.id, 'late')
  const fast = await submit(fastStack.id, 'early')
  const between = await stream.bookmarkAfter(await stream.frame('put', (frame) => frame.object?.id === fast.id))
  expect(stream.frames.some((frame) => frame.type === 'put' && frame.object?.id === slow.objectId)).toBe(false)
  await slow.commit()
  await stream.frame('put', (frame) => frame.object?.id === slow.objectId)

  // Whoever resumes from the cursor in between gets the late one too.
  const resumed = await follow(agent, between.cursor)
  expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume' })
  await resumed.frame('put', (frame) => frame.object?.id === slow.objectId)
  expect(resumed.frames.some((frame) => frame.type === 'snapshot_begin')).toBe(false)
  stream.close()
  resumed.close()
})

test('[S2] a rolled back submission leaves a gap and does not stall streams', async () => {
  const label = unique('l')
  const [gone, other] = [await makeStack([label]), await makeStack([label])]
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  await stream.frame('snapshot_end')
  const open = await openLate(gone.id, 'never')
  const before = await submit(other.id, 'before')
  await stream.frame('put', (frame) => frame.object?.id === before.id)
  await open.rollback()
  const after = await submit(other.id, 'after')
  await stream.frame('put', (frame) => frame.object?.id === after.id)
  expect(stream.frames.some((frame) => frame.type === 'put' && frame.object?.id === open.objectId)).toBe(false)
  const client = await db.connect()
  const { rows } = await client.query('select id from deployment_objects where id = $1', [open.objectId])
  await client.end()
  expect(rows).toEqual([])
  stream.close()
})

test('[S21] a stack that is untargeted, deleted or marked gets an explicit frame', async () => {
  const label = unique('l')
  const [untargeted, deleted, marked] = [await makeStack([label]), await makeStack([label]), await makeStack([label])]
  for (const { id } of [untargeted, deleted, marked]) await submit(id, 'v')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  await stream.frame('snapshot_end')
  await tenant.client.stacksRemoveLabel({ params: { id: untargeted.id, label } })
  expect(await stream.frame('del', (frame) => frame.stack_id === untargeted.id)).toMatchObject({ reason: 'untargeted' })
  await tenant.client.deleteStack({ params: { id: deleted.id } })
  expect(await stream.frame('del', (frame) => frame.stack_id === deleted.id)).toMatchObject({ reason: 'stack_deleted', rev: 2 })
  await tenant.client.createDeploymentObject({ params: { id: marked.id }, body: { yaml_content: '', is_deletion_marker: true } })
  expect(await stream.frame('put', (frame) => frame.object?.is_deletion_marker === true)).toMatchObject({ stack_id: marked.id, rev: 2 })
  stream.close()

  // An agent that was away sees the removals in its next snapshot, until it confirms them.
  const again = await follow(agent)
  const end = await again.frame('snapshot_end')
  expect(end.removals).toBe(2)
  const dels = again.frames.flatMap((frame) => (frame.type === 'del' ? [frame.stack_id] : []))
  expect(dels.toSorted()).toEqual([untargeted.id, deleted.id].toSorted())
  const { session } = await again.frame('hello')
  const report = { phase: 'removed' as const, object_id: null, observed_at: new Date().toISOString() }
  const stacks = dels.map((stack_id) => ({ ...report, stack_id, rev: 2 }))
  expect(await agent.client.reportStatus({ params: { id: agent.agent.id }, body: { session, n: 1, stacks } })).toMatchObject({
    accepted: 2,
    ignored: 0,
  })
  again.close()
  const last = await follow(agent)
  expect((await last.frame('snapshot_end')).removals).toBe(0)
  last.close()
})

test('[S22] targets deleted by SQL are sent as del, and stacks cannot be deleted by SQL', async () => {
  const label = unique('l')
  const stack = await makeStack([label])
  await submit(stack.id, 'v')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  await stream.frame('snapshot_end')
  const client = await db.connect()
  await client.query('delete from agent_targets where agent_id = $1', [agent.agent.id])
  await stream.frame('del', (frame) => frame.stack_id === stack.id)
  await expect(client.query('delete from stacks where id = $1', [stack.id])).rejects.toMatchObject({ code: 'BK004' })
  await client.end()
  stream.close()
})

test('[S43] an agent reaches only its own stream with any id or cursor', async () => {
  const [mine, foreign] = [unique('l'), unique('l')]
  const [myStack, foreignStack] = [await makeStack([mine]), await makeStack([foreign])]
  const a = await createAgent(broker, { labels: [mine], generators: [tenant] })
  const b = await createAgent(broker, { labels: [foreign], generators: [tenant] })
  const stolen = await readStream(broker.url, { agentId: b.agent.id, pak: a.pak })
  expect(stolen.status).toBe(403)
  const streamB = await follow(b)
  const { cursor } = await streamB.frame('snapshot_end')
  const withForeignCursor = await follow(a, cursor)
  await withForeignCursor.frame('hello', (frame) => frame.mode === 'resume')
  await submit(foreignStack.id, 'theirs')
  const own = await submit(myStack.id, 'mine')
  await withForeignCursor.frame('put', (frame) => frame.object?.id === own.id)
  await streamB.frame('put', (frame) => frame.stack_id === foreignStack.id)
  expect(withForeignCursor.frames.some((frame) => frame.type === 'put' && frame.stack_id === foreignStack.id)).toBe(false)
  streamB.close()
  withForeignCursor.close()
})

test('an idle stream gets pings or bookmarks with fresh cursors', async () => {
  const agent = await createAgent(broker, { generators: [tenant] })
  const stream = await follow(agent)
  const { cursor } = await stream.frame('snapshot_end')
  await waitFor(
    'three signs of life',
    () => stream.frames.filter((frame) => frame.type === 'ping' || frame.type === 'bookmark').length >= 3,
  )
  const last = stream.frames.at(-1)!
  await submit((await makeStack()).id, 'elsewhere')
  const moved = await stream.bookmarkAfter(last)
  expect(moved.cursor).not.toBe(cursor)
  const client = await db.connect()
  const { rows } = await client.query<{ cursor_key: Buffer; epoch: string }>('select cursor_key, epoch from feed_state')
  await client.end()
  expect(parseCursor(rows[0]!.cursor_key, moved.cursor)?.epoch).toBe(rows[0]!.epoch)
  stream.close()
})

test('equal count and digest skip the puts, and a foreign cursor is refused before the stream', async () => {
  const label = unique('l')
  await submit((await makeStack([label])).id, 'v')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  const { count, digest } = await stream.frame('snapshot_end')
  stream.close()
  const holding = await readStream(broker.url, {
    agentId: agent.agent.id,
    pak: agent.pak,
    query: { count: String(count), digest, reason: 'daily' },
  })
  expect(await holding.frame('snapshot_end')).toMatchObject({ unchanged: true, count, digest })
  expect(await holding.frame('snapshot_begin')).toMatchObject({ reason: 'daily' })
  expect(holding.frames.some((frame) => frame.type === 'put')).toBe(false)
  holding.close()
  expect((await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak, cursor: 'made-up' })).status).toBe(400)
})

test('a digest check distinguishes match, moved and mismatch', async () => {
  const label = unique('l')
  const stack = await makeStack([label])
  await submit(stack.id, 'v')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await follow(agent)
  const { session } = await stream.frame('hello')
  const { cursor, count, digest } = await stream.frame('snapshot_end')
  const check = async (given: { cursor: string; count: number; digest: string }) =>
    (await agent.client.reportStatus({ params: { id: agent.agent.id }, body: { session, n: 1, stacks: [], check: given } })).check
  expect(await check({ cursor, count, digest })).toBe('match')
  expect(await check({ cursor, count, digest: '0'.repeat(64) })).toBe('mismatch')
  await submit(stack.id, 'w')
  expect(await check({ cursor, count, digest })).toBe('moved')
  stream.close()
})

test('a status report is replaced only by a newer one', async () => {
  const label = unique('l')
  const stack = await makeStack([label])
  const object = await submit(stack.id, 'v')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const report = (session: number, n: number, rev: number, phase: 'applied' | 'failed') =>
    agent.client.reportStatus({
      params: { id: agent.agent.id },
      body: { session, n, stacks: [{ stack_id: stack.id, rev, object_id: object.id, phase, observed_at: new Date().toISOString() }] },
    })
  const phase = async () => (await tenant.client.getStackStatus({ params: { id: stack.id } })).agents[0]?.phase
  expect(await report(5, 2, 1, 'applied')).toMatchObject({ accepted: 1 })
  expect(await report(5, 2, 1, 'failed')).toMatchObject({ accepted: 0, ignored: 1 })
  expect(await report(5, 1, 1, 'failed')).toMatchObject({ ignored: 1 })
  expect(await report(4, 9, 1, 'failed')).toMatchObject({ ignored: 1 })
  expect(await report(6, 1, 0, 'failed')).toMatchObject({ ignored: 1 })
  expect(await phase()).toBe('applied')
  expect(await report(6, 1, 1, 'failed')).toMatchObject({ accepted: 1 })
  expect(await phase()).toBe('failed')
  const foreign = await makeStack()
  const stranger = await agent.client.reportStatus({
    params: { id: agent.agent.id },
    body: {
      session: 9,
      n: 1,
      stacks: [{ stack_id: foreign.id, rev: 1, object_id: null, phase: 'applied', observed_at: new Date().toISOString() }],
    },
  })
  expect(stranger).toMatchObject({ accepted: 0, ignored: 1 })
})
