import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { notificationStrategy } from '../strategies/notification.ts'
import { openApiProxy } from '../test-parts/api-proxy.ts'
import {
  closeServer,
  fastSettings,
  HELM_RELEASE,
  openManagement,
  openPipeline,
  type Server,
  setApp,
  setRelease,
  startTestController,
} from '../test-parts/world.ts'
import { soleLeadership } from './leadership.ts'

let server: Server
let controller: ReturnType<typeof startTestController>

beforeAll(async () => {
  server = await openManagement()
  controller = startTestController(server)
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await closeServer(server)
})

type World = Awaited<ReturnType<typeof openStages>>

/** Environments dev, staging and prod, each in a namespace of its own, all ready on one revision. */
async function openStages(spec: Record<string, unknown> = {}, stages = ['dev', 'staging', 'prod'], revision = 'v1.0.0') {
  const namespaces = Object.fromEntries(
    await Promise.all(stages.map(async (stage) => [stage, await server.plane.namespace(stage)] as const)),
  )
  const { environments: extra = {}, ...rest } = spec as { environments?: Record<string, object> }
  const pipeline = await openPipeline(server, {
    environments: stages.map((name) => ({ name, targets: [{ namespace: namespaces[name]! }], ...extra[name] })),
    promotion: { strategy: { notification: {} } },
    ...rest,
  })
  const move = (stage: string, to: string, ready = true) => setRelease(server.kube, namespaces[stage]!, to, ready)
  for (const stage of stages) await move(stage, revision)
  await pipeline.createSettled(revision)
  const waitForRun = (number: number) => waitFor(`run ${number}`, async () => (await pipeline.read()).status.run?.number === number)
  if (spec['suspend'] !== true) await waitForRun(1)
  return {
    ...pipeline,
    namespaces,
    move,
    promoteEvents: async () => (await pipeline.events()).filter(({ reason }) => reason === 'Promote'),
    /** Twenty passes that nothing calls for. */
    wakeOften: async () => {
      for (let count = 0; count < 20; count++) {
        controller.wake(pipeline.key)
        await controller.whenIdle()
      }
    },
    waitForRun,
  }
}

/** Updates the targets of every promotion that is announced, as a receiver of notifications would. */
function follow(world: World): void {
  const ended = new AbortController()
  const moveAll = async () => {
    for (const { spec, status } of await world.promotions())
      if (status.phase === 'Applied') await world.move(spec.environment, spec.revision)
  }
  const moving = (async () => {
    while (!ended.signal.aborted) {
      await moveAll()
      await clock.sleep(50, ended.signal).catch(() => undefined)
    }
  })()
  onTestFinished(() => {
    ended.abort()
    return moving
  })
}

test('[P19] a revision passes all environments in order, and so does the next', async () => {
  const world = await openStages()
  follow(world)
  await world.move('dev', 'v1.0.1')
  await world.waitForPhases('2 staging v1.0.1 Succeeded', '2 prod v1.0.1 Succeeded')
  await world.move('dev', 'v1.0.2')
  await world.waitForPhases(
    '2 staging v1.0.1 Succeeded',
    '2 prod v1.0.1 Succeeded',
    '3 staging v1.0.2 Succeeded',
    '3 prod v1.0.2 Succeeded',
  )
  const [staging, prod] = await world.promotions()
  const seconds = (time: string | undefined) => Date.parse(time ?? '')
  expect(seconds(prod?.createdAt)).toBeGreaterThanOrEqual(seconds(staging?.status.phaseSince))
})

test('[P20] a first environment whose targets differ holds the run back', async () => {
  const [one, two, prod] = await Promise.all(['one', 'two', 'prod'].map((name) => server.plane.namespace(name)))
  await Promise.all([setRelease(server.kube, one!, 'v1.0.0'), setRelease(server.kube, prod!, 'v1.0.0')])
  await setApp(server.kube, HELM_RELEASE, { namespace: two! })
  const pipeline = await openPipeline(server, {
    environments: [
      { name: 'dev', targets: [{ namespace: one! }, { namespace: two! }] },
      { name: 'prod', targets: [{ namespace: prod! }] },
    ],
    promotion: { strategy: { notification: {} } },
  })
  await pipeline.create()
  await pipeline.waitForReady('ReconciliationSucceeded')
  await pipeline.waitForPending('EnvironmentNotReady')
  await setRelease(server.kube, two!, 'v1.0.0', false)
  await waitFor('the revision', async () => (await pipeline.target('dev', 1))?.revision === 'v1.0.0')
  const { reason, message } = (await pipeline.condition('PromotionPending'))!
  expect([reason, message]).toEqual(['EnvironmentNotReady', 'environment dev: 1 of 2 targets are not ready'])
  expect((await pipeline.read()).status.run).toBeUndefined()
  await setRelease(server.kube, two!, 'v1.0.0')
  await pipeline.waitForPending(null)
  expect((await pipeline.read()).status.run).toMatchObject({ number: 1, revision: 'v1.0.0' })
})

test('[P21] an effect is made once per run and environment, however often a pass runs', async () => {
  const world = await openStages()
  await world.move('dev', 'v2')
  await world.waitForPhases('2 staging v2 Applied')
  await world.wakeOften()
  expect(await world.promoteEvents()).toHaveLength(1)
  await world.move('staging', 'v2')
  await world.waitForPhases('2 staging v2 Succeeded', '2 prod v2 Applied')
  await world.move('prod', 'v2')
  await world.waitForPhases('2 staging v2 Succeeded', '2 prod v2 Succeeded')
  await world.wakeOften()
  const events = await world.promoteEvents()
  expect(events.map(({ message }) => message).toSorted()).toEqual([
    `Promote pipeline ${world.key} to prod with version v2`,
    `Promote pipeline ${world.key} to staging with version v2`,
  ])
})

test('[P22] the promotion of an environment replaces that of the pipeline', async () => {
  const world = await openStages({ environments: { staging: { promotion: { manual: true, strategy: { notification: {} } } } } })
  await world.move('dev', 'v2')
  await world.waitForPhases('2 staging v2 AwaitingApproval')
  await waitFor('the mirror', async () => (await world.read()).status.environments?.['staging']?.waitingApproval?.revision === 'v2')
})

test('[P23] a promotion at the environment alone is used', async () => {
  const world = await openStages({ promotion: undefined, environments: { staging: { promotion: { strategy: { notification: {} } } } } })
  await world.move('dev', 'v2')
  await world.waitForPhases('2 staging v2 Applied')
  await world.move('staging', 'v2')
  await world.waitForPhases('2 staging v2 Succeeded')
  await world.wakeOften()
  expect([await world.phases(), await world.condition('PromotionPending')]).toEqual([['2 staging v2 Succeeded'], undefined])
})

test('[P25] a return to an earlier revision is a run of its own, with a record of its own', async () => {
  const world = await openStages({}, ['dev', 'prod'], 'v0')
  follow(world)
  const phases: string[] = []
  for (const [index, revision] of ['A', 'B', 'A'].entries()) {
    await world.move('dev', revision)
    phases.push(`${index + 2} prod ${revision} Succeeded`)
    await world.waitForPhases(...phases)
  }
  expect((await world.read()).status.run?.number).toBe(4)
  expect((await world.promoteEvents()).length).toBe(3)
})

test('[P26] a return of the first environment reaches the last without a user', async () => {
  const world = await openStages({}, undefined, 'B')
  follow(world)
  await world.move('dev', 'A')
  await world.waitForPhases('2 staging A Succeeded', '2 prod A Succeeded')
})

test('[P27] a held pipeline starts no run after a rollback until it is released', async () => {
  const world = await openStages({}, undefined, 'B')
  await world.patch({ metadata: { annotations: { 'pipelines.brokkr.io/hold': 'true' } } })
  const run = { number: 2, revision: 'A', startedAt: '2026-01-01T00:00:00Z', cause: { kind: 'rollback', actor: 'user:x' }, scope: ['prod'] }
  await world.patchStatus({ run })
  await world.waitForPhases('2 prod A Applied')
  await world.move('prod', 'A')
  await world.waitForPhases('2 prod A Succeeded')
  await world.move('dev', 'C')
  await world.waitForTarget('dev', { revision: 'C' })
  await world.waitForPending('Held')
  expect((await world.read()).status.run?.number).toBe(2)
  await world.patch({ metadata: { annotations: { 'pipelines.brokkr.io/hold': null } } })
  await world.waitForRun(3)
  expect((await world.read()).status.run?.revision).toBe('C')
})

test.each(['Overwrite', 'Protect'] as const)('[P28] a hotfix stays in its run; the next run treats it as %s says', async (hotfix) => {
  const world = await openStages({ policy: { hotfix } }, ['dev', 'prod'], 'A')
  await world.move('dev', 'B')
  await world.waitForPhases('2 prod B Applied')
  await world.move('prod', 'B')
  await world.waitForPhases('2 prod B Succeeded')
  await world.move('prod', 'H')
  await world.waitForPending('Diverged')
  await world.wakeOften()
  expect([(await world.read()).status.environments?.['prod']?.diverged, (await world.promotions()).length]).toEqual([true, 1])
  await world.move('dev', 'C')
  await world.waitForPhases('2 prod B Succeeded', `3 prod C ${hotfix === 'Protect' ? 'AwaitingApproval' : 'Applied'}`)
  expect(await world.promoteEvents()).toHaveLength(hotfix === 'Protect' ? 1 : 2)
  if (hotfix === 'Protect') return
  await world.move('prod', 'C')
  await world.waitForPhases('2 prod B Succeeded', '3 prod C Succeeded')
  await waitFor('the end of the divergence', async () => (await world.read()).status.environments?.['prod']?.diverged === undefined)
})

test('[P29] an environment without promotion ends the walk; one without targets is passed over', async () => {
  const world = await openStages({ environments: { staging: { targets: [] } } })
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  const silent = await openStages({ promotion: undefined })
  await silent.move('dev', 'v2')
  await silent.waitForRun(2)
  await silent.wakeOften()
  expect([await silent.promotions(), await silent.condition('PromotionPending')]).toEqual([[], undefined])
})

test('[P29] a suspended Pipeline starts no run until the suspension ends', async () => {
  const world = await openStages({ suspend: true })
  await world.move('dev', 'v2')
  await world.waitForPending('Suspended')
  expect((await world.read()).status.run).toBeUndefined()
  await world.patch({ spec: { suspend: false } })
  await world.waitForPhases('1 staging v2 Applied')
})

test('[P32] a soak restarts when readiness is lost', async () => {
  const world = await openStages({ policy: { soak: '1h' } }, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await world.move('prod', 'v2')
  await world.waitForPhases('2 prod v2 Verifying')
  await world.move('prod', 'v2', false)
  await world.waitForPhases('2 prod v2 Applied')
  const returnedMs = Date.now()
  await world.move('prod', 'v2')
  await world.waitForPhases('2 prod v2 Verifying')
  const [promotion] = await world.promotions()
  expect(Date.parse(promotion?.status.observed?.soakUntil ?? '')).toBeGreaterThanOrEqual(returnedMs + 3_600_000)
})

test('[P32] a promotion succeeds when its soak is over, not before', async () => {
  const world = await openStages({ policy: { soak: '1s' } }, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  const movedMs = Date.now()
  await world.move('prod', 'v2')
  await world.waitForPhases('2 prod v2 Succeeded')
  const { observed, phaseSince = '' } = (await world.promotions())[0]!.status
  const soakUntilMs = Date.parse(observed?.soakUntil ?? '')
  expect(soakUntilMs).toBeGreaterThanOrEqual(movedMs + 1_000)
  // Phases have times in whole seconds.
  expect(Date.parse(phaseSince) + 999).toBeGreaterThanOrEqual(soakUntilMs)
})

test('[P35] run numbers go on above the records when the status was emptied', async () => {
  const world = await openStages({}, ['dev', 'prod'], 'v0')
  for (const [index, revision] of ['v1', 'v2', 'v3'].entries()) {
    await world.move('dev', revision)
    await waitFor('the run', async () => (await world.phases()).at(-1) === `${index + 2} prod ${revision} Applied`)
  }
  await controller.stop()
  await world.patchStatus({ run: null })
  await world.move('dev', 'v9')
  controller = startTestController(server)
  await waitFor('run 5', async () => (await world.phases()).at(-1) === '5 prod v9 Applied')
  expect((await world.promotions()).map(({ spec }) => spec.run)).toEqual([2, 3, 4, 5])
})

test('[P36] a later environment is promoted while the first is busy with the next revision', async () => {
  const world = await openStages()
  await world.move('dev', 'B')
  await world.waitForPhases('2 staging B Applied')
  await world.move('dev', 'C', false)
  await world.waitForPending('EnvironmentNotReady')
  await world.move('staging', 'B')
  await world.waitForPhases('2 staging B Succeeded', '2 prod B Applied')
})

test('a strategy without a kind is shown as NoStrategy', async () => {
  const world = await openStages({ promotion: { strategy: {} } })
  await world.move('dev', 'v2')
  await world.waitForPending('NoStrategy')
  expect(await world.promotions()).toEqual([])
})

test('the spec of a Promotion cannot be changed', async () => {
  const world = await openStages({}, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  const [{ name } = { name: '' }] = await world.promotions()
  const change = server.kube.patch(
    { ...PROMOTION, namespace: world.namespace, name },
    { type: 'merge', body: { spec: { revision: 'v3' } } },
  )
  await expect(change).rejects.toMatchObject({ reason: 'Invalid' })
})

test('an unchanged pass writes nothing', async () => {
  const world = await openStages()
  const before = await waitFor('a pass without a write', async () => {
    const { resourceVersion } = await world.read()
    await world.wakeOften()
    return controller.records.getPipeline(world.key)?.resourceVersion === resourceVersion && resourceVersion
  })
  await world.wakeOften()
  expect((await world.read()).resourceVersion).toBe(before)
})

test('a change of a status alone does not compute the watches of all Pipelines again', async () => {
  const world = await openStages({}, ['dev', 'prod'])
  follow(world)
  const computed = async () =>
    Number(/task_runs_total\{task="pipelines-used-set",result="ok"\} (\d+)/.exec(await controller.metrics.text())?.[1])
  const before = await computed()
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Succeeded')
  // One run is that of the timer.
  expect((await computed()) - before).toBeLessThanOrEqual(1)
  const [between] = [await computed()]
  await world.patch({ spec: { policy: { soak: '1s' } } })
  await waitFor('a computation', async () => (await computed()) > between)
})

test('[P80] a Deny window keeps a promotion queued until it ends', async () => {
  const startMs = Math.floor(Date.now() / 1000) * 1000 - 60_000
  const environments = (namespaces: Record<string, string>, seconds: number) => {
    const window = { name: 'freeze', kind: 'Deny', start: new Date(startMs).toISOString().slice(0, 19), duration: `${seconds}s` }
    return ['dev', 'prod'].map((name) => ({
      name,
      targets: [{ namespace: namespaces[name] }],
      ...(name === 'prod' ? { windows: [window] } : {}),
    }))
  }
  const world = await openStages({}, ['dev', 'prod'])
  await world.patch({ spec: { environments: environments(world.namespaces, 7_200) } })
  await world.move('dev', 'v2')
  await world.waitForPending('WindowClosed')
  expect((await world.condition('PromotionPending'))?.message).toMatch(/window freeze denies.*opens at \d{4}-/)
  expect(await world.phases()).toEqual(['2 prod v2 Queued'])
  const seconds = Math.ceil((Date.now() - startMs) / 1000) + 2
  await world.patch({ spec: { environments: environments(world.namespaces, seconds) } })
  await world.waitForPhases('2 prod v2 Applied')
  const [promotion] = await world.promotions()
  expect(Date.parse(promotion?.status.attempts?.[0]?.startedAt ?? '')).toBeGreaterThanOrEqual(startMs + seconds * 1000)
})

/** Replaces the controller of the file for one test. */
async function withController(options: Parameters<typeof startTestController>[1]): Promise<void> {
  await controller.stop()
  const own = startTestController(server, options)
  onTestFinished(async () => {
    if (controller !== own) return
    await own.stop()
    controller = startTestController(server)
  })
  controller = own
}

type ReceiverAnswer = number | 'lose' | { readonly status: number; readonly headers: Record<string, string> }

/** A receiver of Flux events that answers by `answer`; `lose` takes the request and drops the connection. */
async function openReceiver(answer: (post: number) => ReceiverAnswer) {
  const posts: { key: string; body: { message: string; metadata: Record<string, string> } }[] = []
  const receiver = createServer((request, response) => {
    const take = (body: unknown): void => {
      posts.push({ key: String(request.headers['idempotency-key']), body: body as (typeof posts)[0]['body'] })
      const next = answer(posts.length)
      if (next === 'lose') request.socket.destroy()
      else if (typeof next === 'number') response.writeHead(next).end()
      else response.writeHead(next.status, next.headers).end()
    }
    json(request).then(take, () => request.socket.destroy())
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const outbound = createOutbound({}, { allow: { cidrs: ['127.0.0.0/8'] } })
  onTestFinished(async () => {
    await outbound.close()
    receiver.close()
  })
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  const strategies = [notificationStrategy({ kube: server.kube, clock, events: { url, outbound } })]
  await withController({ strategies })
  return { posts, strategies }
}

test('[P60] a lost answer of the events address repeats the post under the same key', async () => {
  const { posts } = await openReceiver((post) => (post === 1 ? 'lose' : 202))
  const world = await openStages({}, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await world.wakeOften()
  const [promotion] = await world.promotions()
  expect(posts.map(({ key }) => key)).toEqual([promotion?.spec.key, promotion?.spec.key])
  const message = `Promote pipeline ${world.key} to prod with version v2`
  expect(posts[0]?.body).toMatchObject({ message, metadata: { environment: 'prod', 'pipelines.weave.works/version': 'v2' } })
  expect(await world.promoteEvents()).toMatchObject([{ type: 'Normal', reason: 'Promote', message }])
})

test('a receiver that always fails ends the promotion after its attempts', async () => {
  const { posts } = await openReceiver(() => 500)
  const world = await openStages({ policy: { attempts: 2 } }, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Errored')
  await world.waitForPending('Errored')
  await world.wakeOften()
  expect(posts).toHaveLength(2)
})

test('two controllers that both act make one record and one effect', async () => {
  const other = startTestController(server, { leadership: soleLeadership('other') })
  onTestFinished(() => other.stop())
  const world = await openStages()
  follow(world)
  await world.move('dev', 'v2')
  await world.waitForPhases('2 staging v2 Succeeded', '2 prod v2 Succeeded')
  expect(await world.promoteEvents()).toHaveLength(2)
})

test.each(['Pending', 'Queued'] as const)('[P33] [C9] a pass on a cache that still shows %s makes no second effect', async (phase) => {
  const { posts, strategies } = await openReceiver(() => 202)
  const world = await openStages({}, ['dev', 'prod'])
  const proxy = await openApiProxy(server.plane)
  const kube = openKube(proxy.config)
  onTestFinished(() => kube.close())
  const leadership = { ...soleLeadership('stale'), isLeader: false }
  const stale = startTestController(server, { kube, strategies, leadership })
  onTestFinished(() => stale.stop())
  await waitFor('the second controller', () => stale.isReady)
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await controller.stop()
  const [{ name, key } = { name: '', key: '' }] = await world.promotions()
  await world.patchPromotion(name, { phase, attempts: null, attemptCount: null, effect: null })
  await waitFor('the phase in the cache', () => stale.records.getPromotion(key)?.status.phase === phase)
  proxy.hold()
  await withController({ strategies })
  await world.waitForPhases('2 prod v2 Applied')
  const before = [posts.length, await world.promotions()]
  const calls: string[] = []
  proxy.decide(({ method, path }) => {
    calls.push(`${method} ${path}`)
    return 'pass'
  })
  leadership.isLeader = true
  for (let count = 0; count < 20; count++) {
    stale.wake(world.key)
    await stale.whenIdle()
  }
  expect(stale.records.getPromotion(key)?.status.phase).toBe(phase)
  // A write on the version of the cache is refused; before an attempt the record is read directly.
  const expected = phase === 'Pending' ? `/promotions/${name}/status` : `/promotions/${name}`
  expect(calls.some((call) => call.startsWith(phase === 'Pending' ? 'PATCH' : 'GET') && call.endsWith(expected))).toBe(true)
  expect([posts.length, await world.promotions()]).toEqual(before)
  proxy.release()
})

test('[C9] a pass on a cache from before a pause makes no attempt', async () => {
  const { posts, strategies } = await openReceiver(() => 202)
  const world = await openStages({}, ['dev', 'prod'])
  const proxy = await openApiProxy(server.plane)
  const kube = openKube(proxy.config)
  onTestFinished(() => kube.close())
  const leadership = { ...soleLeadership('stale'), isLeader: false }
  const stale = startTestController(server, { kube, strategies, leadership })
  onTestFinished(() => stale.stop())
  await waitFor('the second controller', () => stale.isReady)
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await controller.stop()
  const [{ name, key } = { name: '', key: '' }] = await world.promotions()
  await world.patchPromotion(name, { phase: 'Queued', effect: null })
  await waitFor('the phase in the cache', () => stale.records.getPromotion(key)?.status.phase === 'Queued')
  proxy.hold()
  await world.patchPromotion(name, { nextAttemptAt: new Date(Date.now() + 300_000).toISOString() })
  const before = posts.length
  leadership.isLeader = true
  for (let count = 0; count < 20; count++) {
    stale.wake(world.key)
    await stale.whenIdle()
  }
  expect([posts.length, await world.phases()]).toEqual([before, ['2 prod v2 Queued']])
  proxy.release()
})

test('a record of a Lease that was deleted is taken over under the new Lease', async () => {
  await withController({ leadership: { ...soleLeadership('first'), epoch: 7, leaseUid: 'deleted' } })
  const world = await openStages({}, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await withController({ leadership: { ...soleLeadership('second'), epoch: 0, leaseUid: 'created' } })
  await world.move('prod', 'v2')
  await world.waitForPhases('2 prod v2 Succeeded')
  expect((await world.promotions())[0]?.status.lease).toEqual({ holder: 'second', epoch: 0, uid: 'created' })
})

test('[C10] a leader of an earlier term of the same Lease writes nothing', async () => {
  await withController({ leadership: { ...soleLeadership('newer'), epoch: 7, leaseUid: 'one' } })
  const world = await openStages({}, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  await withController({ leadership: { ...soleLeadership('older'), epoch: 6, leaseUid: 'one' } })
  await world.move('prod', 'v2')
  await waitFor('the move in the cache', () => controller.explain(world.key)?.observed[1]?.targets[0]?.revision === 'v2')
  await world.wakeOften()
  const [promotion] = await world.promotions()
  expect([promotion?.status.phase, promotion?.status.lease?.holder]).toEqual(['Applied', 'newer'])
})

test('a rate limit of the events address that ends at a date delays the next post', async () => {
  const { posts } = await openReceiver((post) => {
    const headers = { 'retry-after': new Date(Date.now() + 2_000).toUTCString() }
    return post === 1 ? { status: 429, headers } : 202
  })
  const world = await openStages({}, ['dev', 'prod'])
  await world.move('dev', 'v2')
  await world.waitForPhases('2 prod v2 Applied')
  const { attempts, attemptCount } = (await world.promotions())[0]!.status
  expect(attempts?.map((attempt) => attempt.class ?? attempt.outcome)).toEqual(['rate-limited', 'succeeded'])
  expect([attemptCount, posts.length]).toEqual([1, 2])
})

test('an environment that is half on the revision waits also after a start of the controller', async () => {
  await withController({ settings: { decide: { ...fastSettings.decide, promotionSettleMs: 3_600_000 } } })
  const [dev, one, two] = await Promise.all(['dev', 'one', 'two'].map((name) => server.plane.namespace(name)))
  await Promise.all([setRelease(server.kube, dev!, 'v2'), setRelease(server.kube, one!, 'v2'), setRelease(server.kube, two!, 'v1')])
  const pipeline = await openPipeline(server, {
    environments: [
      { name: 'dev', targets: [{ namespace: dev! }] },
      { name: 'prod', targets: [{ namespace: one! }, { namespace: two! }] },
    ],
    promotion: { strategy: { notification: {} } },
    suspend: true,
  })
  await pipeline.create()
  await waitFor(
    'all targets',
    async () => (await pipeline.target('prod', 0))?.revision === 'v2' && (await pipeline.target('prod', 1))?.revision,
  )
  await pipeline.patch({ spec: { suspend: false } })
  await waitFor('the reason', async () => (await pipeline.condition('PromotionPending'))?.message.includes('still changing'))
  expect(await pipeline.promotions()).toEqual([])
})
