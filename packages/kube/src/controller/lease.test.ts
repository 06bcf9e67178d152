import { type ChildProcess, fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import type { Act } from '../test-parts/lease-candidate.ts'
import { CONFIG_MAP, configMap, openClosing, openTestKube } from '../test-parts/open-test-kube.ts'
import { type Election, type ElectionOptions, LeaseLost, startElection } from './lease.ts'

let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster({ controllers: false })
  kube = await openTestKube(at)
})

const times = { durationMs: 1_000, retryEveryMs: 50 }
const stand = (namespace: string, identity: string, more: Partial<ElectionOptions> & { skewMs?: number; kube?: Kube } = {}): Election => {
  const skewed = { ...clock, now: () => clock.now() + (more.skewMs ?? 0) }
  const election = startElection({ kube: more.kube ?? kube, clock: skewed, log }, { name: 'lease', namespace, identity, ...times, ...more })
  onTestFinished(() => election.stop())
  return election
}

test('one of three candidates with skewed clocks leads, and its stop releases the Lease', async () => {
  const namespace = await at.namespace()
  let candidates = ['a', 'b', 'c'].map((identity, index) => stand(namespace, identity, { skewMs: (index - 1) * 7_200_000 }))
  let epoch = 0
  while (candidates.length > 0) {
    const leader = await waitFor('a leader', () => candidates.find((candidate) => candidate.held()))
    expect(candidates.filter((candidate) => candidate.held())).toEqual([leader])
    const term = await leader.whenHeld()
    expect(term.epoch).toBeGreaterThan(epoch)
    epoch = term.epoch
    const lease = await kube.get({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name: 'lease' })
    expect(lease.spec).toMatchObject({ holderIdentity: leader.identity, leaseTransitions: epoch })
    await leader.stop()
    expect([leader.held(), term.signal.aborted, term.signal.reason instanceof LeaseLost]).toEqual([false, true, true])
    candidates = candidates.filter((candidate) => candidate !== leader)
  }
  const lease = await kube.get({ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name: 'lease' })
  expect(lease.spec?.['holderIdentity']).toBe('')
})

test('a partitioned leader stops before another takes over, and its guard blocks writes', async () => {
  const namespace = await at.namespace()
  const { proxy, kube: through } = await proxied()
  const first = stand(namespace, 'first', { kube: through })
  const term = await first.whenHeld()
  const second = stand(namespace, 'second')
  const both: number[] = []
  const watch = setInterval(() => first.held() && second.held() && both.push(Date.now()), 1)
  onTestFinished(() => clearInterval(watch))
  proxy.halfOpen()
  const next = await second.whenHeld()
  expect([first.held(), term.signal.aborted, next.epoch > term.epoch, both]).toEqual([false, true, true, []])
  await expect(kube.with({ guard: () => first.assertHeld() }).create(configMap(namespace, 'late'))).rejects.toThrow(LeaseLost)
  expect(await kube.find({ ...CONFIG_MAP, namespace, name: 'late' })).toBeUndefined()
  proxy.heal()
  await second.stop()
  expect((await first.whenHeld()).epoch).toBeGreaterThan(next.epoch)
  expect(both).toEqual([])
})

test('an expired term is not reported as taken by the previous holder', async () => {
  const namespace = await at.namespace()
  const [one, two] = [await proxied(), await proxied()]
  const before = stand(namespace, 'before', { kube: one.kube })
  await before.whenHeld()
  const after = stand(namespace, 'after', { kube: two.kube })
  const told: (string | null)[] = []
  after.onChange(() => told.push(after.rival))
  await waitFor('the rival to be told of', () => told.includes('before'))
  one.proxy.halfOpen()
  const term = await after.whenHeld()
  two.proxy.halfOpen()
  await waitFor('the term to run out', () => term.signal.aborted)
  expect([after.held(), after.rival]).toEqual([false, null])
})

/** A client whose way to the API server can be broken. */
async function proxied() {
  const proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(at.url).port) } })
  onTestFinished(() => proxy.close())
  const { caPem, token } = at
  const server = `https://127.0.0.1:${proxy.port}`
  return { proxy, kube: openClosing({ server, namespace: 'default', ca: { pem: caPem }, token: { kind: 'value', value: token } }) }
}

test('a leader notices a changed holder at the next renewal', async () => {
  const namespace = await at.namespace()
  const election = stand(namespace, 'me', { durationMs: 60_000, renewEveryMs: 50 })
  const term = await election.whenHeld()
  const ref = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', namespace, name: 'lease' }
  await kube.patch(ref, { type: 'merge', body: { metadata: { labels: { a: 'b' } } } })
  await waitFor('a renewal after the label', async () => (await kube.get(ref)).metadata.labels?.['a'] === 'b' && election.held())
  expect(term.signal.aborted).toBe(false)
  await kube.patch(ref, { type: 'merge', body: { spec: { holderIdentity: 'thief' } } })
  await waitFor('the end of the term', () => term.signal.aborted)
  expect(election.held()).toBe(false)
  await kube.patch(ref, { type: 'merge', body: { spec: { holderIdentity: 'me' } } })
  expect((await election.whenHeld()).signal.aborted).toBe(false)
})

test('waiting for the lease ends with the signal', async () => {
  const namespace = await at.namespace()
  await stand(namespace, 'first', { durationMs: 60_000 }).whenHeld()
  const reason = new Error('enough')
  const controller = new AbortController()
  const waiting = stand(namespace, 'second').whenHeld(controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test.each([{ renewEveryMs: 900 }, { fenceMs: 1_000 }])('unsafe times are refused: %o', (bad) => {
  expect(() => startElection({ kube, clock, log }, { name: 'x', namespace: 'default', identity: 'x', durationMs: 1_000, ...bad })).toThrow(
    RangeError,
  )
})

test('a leader paused by SIGSTOP never acts in the term of its successor', async () => {
  const namespace = await at.namespace()
  const acts: Act[] = []
  const program = fileURLToPath(new URL('../test-parts/lease-candidate.ts', import.meta.url))
  const start = (identity: string, skewMs: number): [string, ChildProcess] => {
    const child = fork(program, [at.kubeconfigPath, namespace, identity, String(skewMs)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    child.on('message', (act) => acts.push(act as Act))
    onTestFinished(() => void child.kill('SIGKILL'))
    return [identity, child]
  }
  const children = new Map([start('a', -3_600_000), start('b', 3_600_000)])
  for (let round = 0; round < 3; round++) {
    const seen = acts.length
    const leader = await waitFor('an act', () => (acts.length > seen ? acts.at(-1)?.identity : undefined))
    children.get(leader)?.kill('SIGSTOP')
    await waitFor('an act of the other', () => acts.at(-1)?.identity !== leader && acts.length)
    children.get(leader)?.kill('SIGCONT')
    const stopped = acts.length
    await waitFor('more acts', () => acts.length > stopped + 20)
  }
  const inTime = acts.toSorted((a, b) => (BigInt(a.atNs) < BigInt(b.atNs) ? -1 : 1))
  const epochs = inTime.map(({ epoch }) => epoch)
  expect(epochs).toEqual(epochs.toSorted((a, b) => a - b))
  const holders = new Map<number, Set<string>>()
  for (const { epoch, identity } of acts) holders.set(epoch, (holders.get(epoch) ?? new Set()).add(identity))
  expect(holders.size).toBeGreaterThanOrEqual(4)
  expect([...holders.values()].filter((names) => names.size > 1)).toEqual([])
})
