import type { ServerResponse } from 'node:http'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { readManifest, sha256 } from '../desired-state/cached-manifest.ts'
import type { VerifiedSnapshot } from '../desired-state/snapshot.ts'
import { agentMetrics } from '../metrics.ts'
import { begin, bookmark, bye, contentPath, end, hello, objectId, ping, put, putByUrl, stackId } from '../test-parts/frames.ts'
import { type Answering, closeAfter, json, line, scriptedBroker, streaming } from '../test-parts/scripted-broker.ts'
import { type BrokerSyncOptions, createBrokerSync } from './broker-sync.ts'

const agentId = '0c000000-0000-4000-8000-000000000001' as AgentId
const listed = [put(1, 1), put(2, 1)]
const list = [hello(), begin(), ...listed, end(listed, { cursor: 'c1' })]
const resumed = hello({ mode: 'resume', reason: null })

const defaults: BrokerSyncOptions = {
  transport: 'auto',
  pollMs: 20,
  deadMs: 5_000,
  silentMs: 5_000,
  longPollMs: 5_000,
  transportRetryMs: 60_000,
  refusedRetryMs: 10,
  snapshotMs: 600_000,
  reconnect: { baseMs: 1, maxMs: 5 },
}

async function following(answer: Answering, change: Partial<BrokerSyncOptions> = {}) {
  const server = await scriptedBroker(answer)
  const metrics = createMetrics()
  const verified: VerifiedSnapshot[] = []
  const looked: StackId[] = []
  const asked: string[] = []
  const session = { agentId, broker: await server.connect() }
  const follow = createBrokerSync({ session, clock, log, metrics: agentMetrics(metrics) }, { ...defaults, ...change })
  follow.start({
    onReconcile: (id) => void looked.push(id),
    onVerified: (found) => void verified.push(found),
    onSession: () => undefined,
    onRefresh: (what) => void asked.push(what),
    onChanged: () => undefined,
  })
  closeAfter(() => follow.stop())
  const streams = () => server.requests.filter(({ url }) => url.pathname.endsWith('/stream'))
  const cursors = () => streams().map(({ url }) => url.searchParams.get('cursor'))
  const running = () =>
    [...follow.state.desired.stacks.values()].map(
      ({ stackName, rev, object }) => `${stackName} ${rev} ${object ? readManifest(object).trim() : '-'}`,
    )
  return { server, follow, verified, looked, asked, streams, cursors, running, metrics }
}

/** Each stream gets the next script; the last one stays. */
const scripts = (...each: ((response: ServerResponse, url: URL) => void)[]): Answering => {
  let stream = 0
  return (_request, response, url) => {
    if (!url.pathname.endsWith('/stream')) return json(response, 404, {})
    const script = each[Math.min(stream++, each.length - 1)]
    script?.(response, url)
  }
}
const open = (response: ServerResponse) => streaming(response, resumed, ping())

test('a truncated frame is discarded, and the next stream resumes at the last bookmark', async () => {
  const cut = (response: ServerResponse) => {
    streaming(response, ...list, put(1, 2), bookmark('c2'), put(2, 2))
    response.write(line(put(3, 1)).slice(0, 60), () => response.destroy())
  }
  const { cursors, running, follow, verified } = await following(scripts(cut, open))
  await waitFor('the second stream', () => follow.transport === 'stream' && cursors().length === 2)
  expect(cursors()).toEqual([null, 'c2'])
  expect(running()).toEqual(['stack-1 2 a: 2', 'stack-2 2 a: 2'])
  expect(verified.length).toBe(1)
  expect(follow.state.desired.removals.size).toBe(0)
})

test('a resuming stream sends count and digest, so that a lost cursor needs no snapshot', async () => {
  const { streams, follow } = await following(scripts((response) => streaming(response, ...list, bye()), open))
  await waitFor('the second stream', () => streams().length === 2)
  const { count, digest } = follow.state.desired.summary()
  expect(Object.fromEntries(streams()[1]?.url.searchParams ?? [])).toEqual({ cursor: 'c1', count: String(count), digest })
})

test('a silent stream is closed after deadMs and resumed', async () => {
  const { cursors, follow } = await following(
    scripts((response) => streaming(response, ...list), open),
    { deadMs: 100 },
  )
  await waitFor('another stream', () => cursors().length >= 2)
  expect(cursors().slice(0, 2)).toEqual([null, 'c1'])
  expect(follow.state.desired.stacks.size).toBe(2)
})

test('bytes without a complete frame do not extend the timeout of a stream', async () => {
  const drip = (response: ServerResponse) => {
    streaming(response, ...list)
    const timer = setInterval(() => response.write('x'), 10)
    response.on('close', () => clearInterval(timer))
  }
  const { cursors } = await following(scripts(drip, open), { deadMs: 100 })
  await waitFor('another stream', () => cursors().length >= 2)
})

test.each([
  ['garbage', 'not json at all\n'],
  ['a put without its rev', line({ ...put(3, 1), rev: undefined })],
  ['a frame without a type', '{"a":1}\n'],
  ['a frame that is a number', '17\n'],
  ['content under a wrong checksum', line(put(3, 1, 'a', { object: { ...put(3, 1, 'a').object!, yaml_content: 'evil' } }))],
])('%s closes the stream and keeps the cursor; the third failure in a row drops it', async (_what, bad) => {
  const broken = (response: ServerResponse) => {
    streaming(response, resumed)
    response.write(bad)
  }
  const first = (response: ServerResponse) => streaming(response, ...list, bye())
  const { cursors, running } = await following(scripts(first, broken, broken, broken, (response) => streaming(response, ...list)))
  await waitFor('five streams', () => cursors().length === 5)
  expect(cursors()).toEqual([null, 'c1', 'c1', 'c1', null])
  expect(running()).toEqual(['stack-1 1 a: 1', 'stack-2 1 a: 1'])
})

test('a line without an end is rejected at the size limit', async () => {
  const endless = (response: ServerResponse) => {
    streaming(response, resumed)
    response.on('error', () => undefined)
    for (let piece = 0; piece < 9; piece++) response.write('x'.repeat(1024 * 1024))
  }
  const { cursors, follow } = await following(scripts((response) => streaming(response, ...list, bye()), endless, open))
  await waitFor('the third stream', () => cursors().length === 3 && follow.transport === 'stream')
  expect(cursors()).toEqual([null, 'c1', 'c1'])
})

test('a stream ignores unknown frames of a later release', async () => {
  const future = (response: ServerResponse) =>
    streaming(response, ...list, { type: 'hologram', x: 1 }, { ...put(1, 2), later: true }, bookmark('c2'))
  const { follow, running, cursors } = await following(scripts(future))
  await waitFor('the bookmark', () => follow.state.cursor === 'c2')
  expect(running()[0]).toBe('stack-1 2 a: 2')
  expect(cursors().length).toBe(1)
})

test('an unverified snapshot is requested again without a cursor and removes nothing', async () => {
  const wrong = (response: ServerResponse) => streaming(response, hello(), begin(), put(1, 2), end([put(1, 2), put(9, 9)]))
  const { cursors, verified, running, follow } = await following(
    scripts((response) => streaming(response, ...list, bye()), wrong, wrong, open),
  )
  await waitFor('a fourth stream', () => cursors().length >= 4)
  expect(cursors().slice(0, 4)).toEqual([null, 'c1', null, null])
  expect(verified.length).toBe(1)
  expect(running()).toEqual(['stack-1 2 a: 2', 'stack-2 1 a: 1'])
  expect(follow.state.desired.removals.size).toBe(0)
})

test('content by URL is applied after its checksum matches, and the cursor waits for it', async () => {
  const contents: ((response: ServerResponse) => void)[] = [
    (response) => json(response, 500, {}),
    (response) => void response.end('something else'),
    (response) => void response.end('large: true\n'),
  ]
  let asked = 0
  const withLarge = [putByUrl(1, 1, 'large: true\n'), put(2, 1)]
  let release: () => void = () => undefined
  const { follow, running, verified, server } = await following((_request, response, url) => {
    if (url.pathname.endsWith('/stream'))
      return streaming(response, hello(), begin(), ...withLarge, end(withLarge, { cursor: 'c1' }), put(3, 1), bookmark('c2'))
    const next = contents[asked++]
    if (asked < contents.length) return next?.(response)
    release = () => next?.(response)
  })
  await waitFor('the third request', () => asked === 3)
  expect(running()).toEqual(['stack-2 1 a: 1', 'stack-3 1 a: 1'])
  expect([follow.state.cursor, verified.length]).toEqual([null, 0])
  release()
  await waitFor('the list to be proven', () => verified.length === 1)
  expect(running()).toContain('stack-1 1 large: true')
  expect(follow.state.cursor).toBe('c2')
  expect(server.requests.find(({ url }) => url.pathname === contentPath(1, 1))?.headers.accept).toBe('application/yaml')
})

test('an unreachable or failing broker removes no stack', async () => {
  const page = (response: ServerResponse) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')
  const refusals = [401, 403, 500, 502, 503].map((status) => (response: ServerResponse) => void response.writeHead(status).end())
  const { cursors, running, follow } = await following(scripts((response) => streaming(response, ...list, bye()), page, ...refusals, open))
  await waitFor('a stream again', () => cursors().length === 8 && follow.transport === 'stream')
  expect(cursors()).toEqual([null, ...Array.from({ length: 7 }, () => 'c1')])
  expect(running()).toEqual(['stack-1 1 a: 1', 'stack-2 1 a: 1'])
})

test('a cursor that the broker rejects is dropped once', async () => {
  const bad = (response: ServerResponse) => json(response, 400, { code: 'bad_cursor', message: 'no' })
  const { cursors } = await following(
    scripts(
      (response) => streaming(response, ...list, bye()),
      bad,
      (response) => streaming(response, ...list),
    ),
  )
  await waitFor('the third stream', () => cursors().length === 3)
  expect(cursors()).toEqual([null, 'c1', null])
})

test('a digest mismatch requests a snapshot with the last cursor, without count and digest', async () => {
  const { streams, follow } = await following(scripts((response) => streaming(response, ...list)))
  await waitFor('the list', () => follow.state.cursor === 'c1')
  follow.restart()
  await waitFor('another stream', () => streams().length === 2)
  expect(Object.fromEntries(streams()[1]?.url.searchParams ?? [])).toEqual({ reason: 'digest', seen: 'c1' })
})

const item = (n: number, rev: number, text = `a: ${rev}\n`) => ({
  id: objectId(n, rev),
  stack_id: stackId(n),
  sequence_id: rev,
  yaml_content: text,
  yaml_checksum: sha256(text),
  is_deletion_marker: false,
  submitted_at: '2026-01-01T00:00:00Z',
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
  deleted_at: null,
  rollback_of: null,
  stack_name: `stack-${n}`,
  rev,
  drift: 'heal',
})
const proof = (...frames: Parameters<typeof end>[0][number][]) => {
  const { count, digest } = end(frames)
  return { 'x-brokkr-count': String(count), 'x-brokkr-digest': digest, etag: `"${digest}"` }
}

test('the agent polls the target state without a stream and later tries a stream again', async () => {
  const polls: { etag: string | undefined }[] = []
  let hasStream = false
  const { follow, running, verified, streams } = await following(
    (request, response, url) => {
      if (url.pathname.endsWith('/stream')) return hasStream ? streaming(response, ...list) : json(response, 404, {})
      const etag = request.headers['if-none-match']
      polls.push({ etag })
      return etag ? void response.writeHead(304).end() : json(response, 200, [item(1, 2), item(2, 1)], proof(put(1, 2), put(2, 1)))
    },
    { transportRetryMs: 300 },
  )
  await waitFor('two polls', () => polls.length >= 2)
  expect(follow.transport).toBe('poll')
  expect(polls.slice(0, 2).map(({ etag }) => etag)).toEqual([undefined, proof(put(1, 2), put(2, 1)).etag])
  expect(running()).toEqual(['stack-1 2 a: 2', 'stack-2 1 a: 1'])
  expect(verified).toEqual([
    { listed: new Set([stackId(1), stackId(2)]), removals: new Set(), allowRemovals: null, epoch: null, boot: null, isNewEpoch: false },
  ])
  hasStream = true
  await waitFor('the stream', () => follow.transport === 'stream')
  expect(streams().length).toBeGreaterThanOrEqual(2)
  // A poller knows no history, so the list of the stream counts, lower revs included.
  await waitFor('the list of the stream', () => running()[0] === 'stack-1 1 a: 1')
})

test('a polled list of another epoch is reported as isNewEpoch', async () => {
  const [here, elsewhere] = ['5f0c/b007', '5f0c/b008']
  const answers = [here, elsewhere, elsewhere, '6000/b008', '6000/b009']
  const asked: (string | null)[] = []
  const { verified } = await following(
    (_request, response, url) => {
      if (url.pathname.endsWith('/stream')) return json(response, 404, {})
      asked.push(url.searchParams.get('seen'))
      const n = Math.min(asked.length, answers.length)
      const { etag: _, ...proven } = proof(put(1, n))
      // The second broker in line does not know the cursor of the first.
      if (asked.length === 2) return json(response, 400, { code: 'bad_cursor', message: 'no' })
      return json(response, 200, [item(1, n)], { ...proven, 'x-brokkr-history': answers[n - 1]!, 'x-brokkr-cursor': `c${n}` })
    },
    { pollMs: 10 },
  )
  await waitFor('five polls', () => verified.length >= 4)
  expect(asked.slice(0, 5)).toEqual([null, 'c1', null, 'c3', 'c4'])
  expect(verified.slice(0, 4).map(({ epoch, boot, isNewEpoch }) => `${epoch}/${boot} ${isNewEpoch}`)).toEqual([
    '5f0c/b007 false',
    '5f0c/b008 true',
    '6000/b008 true',
    '6000/b009 false',
  ])
})

test.each([
  ['no count and digest', (response: ServerResponse) => json(response, 200, [item(1, 2)])],
  ['a wrong digest', (response: ServerResponse) => json(response, 200, [item(1, 2)], { ...proof(put(1, 3)) })],
  ['an empty list without digest', (response: ServerResponse) => json(response, 200, [])],
  ['a cut list', (response: ServerResponse) => void response.end(JSON.stringify([item(1, 2)]).slice(0, -20))],
  ['a page', (response: ServerResponse) => void response.end('<html>')],
  ['another shape', (response: ServerResponse) => json(response, 200, { items: [] })],
  ['wrong content', (response: ServerResponse) => json(response, 200, [{ ...item(1, 2), yaml_content: 'evil' }], proof(put(1, 2)))],
  ['an error', (response: ServerResponse) => json(response, 500, {})],
])('polled: %s is not verified and removes nothing', async (_what, answer) => {
  let polls = 0
  const { follow, verified } = await following(
    (_request, response) => {
      polls++
      return polls === 1 ? json(response, 200, [item(1, 1), item(2, 1)], proof(put(1, 1), put(2, 1))) : answer(response)
    },
    { transport: 'poll' },
  )
  await waitFor('a few polls', () => polls >= 4)
  expect(verified.length).toBe(1)
  expect([...follow.state.desired.stacks.keys()]).toEqual([stackId(1), stackId(2)])
  expect(follow.state.desired.removals.size).toBe(0)
})
