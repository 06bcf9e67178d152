// Nothing is deleted on an error, on silence, or on a list that nobody has proven: a whole agent on a real API server, with a
// broker in front of which something answers wrongly for as long as the size of the run says. Deletes are counted in the API
// server's own audit log, and a real marker shows that the count moves.
import { randomUUID } from 'node:crypto'
import type { Fault } from '@brokkr/testing/faults/broker-proxy.ts'
import { type AuditedCluster, auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type LiveWorld, liveWorld } from '../test-parts/live-world.ts'
import { lying, sha256 } from '../test-parts/wrong-snapshots.ts'

let at: AuditedCluster
beforeAll(async () => {
  at = await auditedCluster()
  return () => at.stop()
}, 180_000)

const answer = (status: number, body = '', contentType = 'application/json'): Fault => ({
  do: 'answer',
  status,
  body,
  headers: { 'content-type': contentType },
})
const cutArray: Fault = { do: 'change', answer: (whole) => ({ ...whole, body: whole.body.slice(0, -20) }) }
/** A list as it would be without its end, still an array, its proof left as it was. */
const shortArray: Fault = {
  do: 'change',
  answer: (whole) => ({ ...whole, body: JSON.stringify((JSON.parse(whole.body) as unknown[]).slice(1)) }),
}

const isOver = (startedMs: number, requests: number): boolean => {
  const [polls, durationMs] = [size('A10.polls'), size('A10.durationMs')]
  return durationMs === null ? requests >= (polls ?? 0) : performance.now() - startedMs >= durationMs
}

/** A real marker is still obeyed, and the audit log shows it. */
async function markerDeletes(world: LiveWorld, stack: Awaited<ReturnType<LiveWorld['deploy']>>[number], since: number): Promise<void> {
  world.proxy.heal()
  await world.tenant.client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: '', is_deletion_marker: true },
  })
  await waitFor('the marked object to go', async () => (await world.read(stack.name)) === null, {
    limitMs: 90_000,
    onTimeout: world.explain,
  })
  const deleted = (await world.deletes(since)).filter(({ resource }) => resource === 'configmaps')
  expect(deleted.map(({ name }) => name)).toEqual([stack.name])
}

test(
  '[A10] no response to a poll deletes anything',
  async () => {
    const world = await liveWorld(at, { BROKKR__AGENT__TRANSPORT: 'poll', BROKKR__AGENT__POLLING_INTERVAL: '0.05' })
    try {
      const stacks = await world.deploy(8)
      const since = await at.mark()
      const wrongs: Fault[] = [
        answer(401),
        answer(403, '{"code":"agent_pak_mismatch","message":"no"}'),
        answer(404, '{"code":"agent_not_found","message":"no"}'),
        answer(500),
        { do: 'reset' },
        cutArray,
        shortArray,
        answer(200, '[]'),
      ]
      let polls = 0
      const startedMs = performance.now()
      world.proxy.break(({ path }) => (path.endsWith('/target-state') ? wrongs[polls++ % wrongs.length]! : { do: 'pass' }))
      await waitFor('the polls', () => isOver(startedMs, polls), { limitMs: 2 * 3_600_000, everyMs: 250, onTimeout: world.explain })
      expect(await world.deletes(since)).toEqual([])
      expect(await world.names()).toEqual(expect.arrayContaining(stacks.map(({ name }) => name)))
      await markerDeletes(world, stacks[3]!, since)
    } finally {
      await world.stop()
    }
  },
  3 * 3_600_000,
)

test(
  'promise 2: no broker response on any transport causes an unrequested deletion',
  async () => {
    const world = await liveWorld(at, {
      BROKKR__AGENT__POLLING_INTERVAL: '0.1',
      BROKKR__AGENT__TRANSPORT_RETRY_SECONDS: '0.3',
      BROKKR__AGENT__SNAPSHOT_INTERVAL: '0.4',
      BROKKR__AGENT__STREAM_SILENT_SECONDS: '0.5',
      BROKKR__AGENT__STREAM_DEAD_SECONDS: '1',
      BROKKR__AGENT__REFUSED_RETRY_SECONDS: '0.2',
      BROKKR__AGENT__REQUEST_TIMEOUT: '1',
      // A key that is refused must not make the agent hold still: it is its behaviour at work that counts here.
      BROKKR__AGENT__FROZEN_AFTER_SECONDS: '86400',
    })
    try {
      const stacks = await world.deploy(8)
      const since = await at.mark()
      const everyPath = (fault: Fault) => () => fault
      const epoch = randomUUID()
      const empty = { count: 0, digest: sha256('') }
      const proven = { 'x-brokkr-count': '0', 'x-brokkr-digest': empty.digest }
      const wrongs: Record<string, (request: { path: string; method: string; query: URLSearchParams }) => Fault> = {
        '401': everyPath(answer(401)),
        '403': everyPath(answer(403, '{"code":"agent_pak_mismatch","message":"no"}')),
        '404': everyPath(answer(404)),
        'agent not found': everyPath(answer(404, '{"code":"agent_not_found","message":"no such agent"}')),
        '426': everyPath(answer(426, '{"code":"upgrade_required","message":"too old"}')),
        '500': everyPath(answer(500)),
        '501': everyPath(answer(501)),
        'a page': everyPath(answer(200, '<html>sign in</html>', 'text/html')),
        'a page that says it is JSON': everyPath(answer(200, '<html>sign in</html>')),
        'an empty list': everyPath(answer(200, '[]')),
        'an empty list as a stream': everyPath(answer(200, '[]\n', 'application/x-ndjson')),
        'an empty list with its proof': ({ path }) =>
          path.endsWith('/target-state') ? { do: 'answer', status: 200, body: '[]', headers: proven } : answer(404),
        'a cut list': ({ path }) => (path.endsWith('/target-state') ? cutArray : answer(404)),
        'a short list': ({ path }) => (path.endsWith('/target-state') ? shortArray : answer(404)),
        'a cut snapshot': lying({ isLost: () => true, cutsEnd: true }),
        'a snapshot of less than it says': lying({ isLost: () => true, end: (_honest, original) => original }),
        'an empty snapshot': lying({ isLost: () => true }),
        'an empty snapshot of another history': lying({ isLost: () => true, epoch }),
        'a snapshot of another history that is cut': lying({ isLost: () => true, epoch: randomUUID(), cutsEnd: true }),
        'a reset': everyPath({ do: 'reset' }),
        silence: everyPath({ do: 'hang' }),
      }
      const startedMs = performance.now()
      let requests = 0
      for (let round = 0; ; round++) {
        const [what, wrong] = Object.entries(wrongs)[round % Object.keys(wrongs).length]!
        let seen = 0
        world.proxy.break((request) => {
          // What matters is how often the agent was told what to run, or tried to be.
          if (/\/(stream|target-state)$/.test(request.path)) {
            requests++
            seen++
          }
          return wrong(request)
        })
        world.proxy.cutOpen()
        await waitFor(`requests answered with ${what}`, () => seen >= 6, { limitMs: 120_000, onTimeout: world.explain })
        const isRoundOver = round % Object.keys(wrongs).length === Object.keys(wrongs).length - 1
        if (isRoundOver && isOver(startedMs, requests)) break
      }
      expect(requests).toBeGreaterThanOrEqual(120)
      expect(await world.deletes(since)).toEqual([])
      expect(await world.names()).toEqual(expect.arrayContaining(stacks.map(({ name }) => name)))
      await markerDeletes(world, stacks[3]!, since)
    } finally {
      await world.stop()
    }
  },
  3 * 3_600_000,
)
