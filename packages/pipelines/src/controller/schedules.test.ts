// long: hundreds of promotions under random faults and crashes
import { createHash } from 'node:crypto'
import { PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { openKube } from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { phaseOf, toPromotionRecord } from '../objects.ts'
import { type ApiProxy, type Call, type Fate, openApiProxy } from '../test-parts/api-proxy.ts'
import { closeServer, HELM_RELEASE, openManagement, type Server, setApp, startTestController } from '../test-parts/world.ts'
import { soleLeadership } from './leadership.ts'

const COUNT = size('pipelines.schedules')
const SEED = 7

let server: Server

beforeAll(async () => {
  server = await openManagement()
}, 240_000)

afterAll(() => closeServer(server))

/** A fraction from 0 to 1 that the seed and a number determine. */
const fraction = (number: number): number => createHash('sha256').update(`${SEED}:${number}`).digest().readUInt32BE(0) / 2 ** 32

/** Loses one in ten requests and one in ten answers of every write and direct read of records and Events. */
function randomFate(): (call: Call) => Fate {
  let calls = 0
  return ({ method, path }) => {
    if (method === 'GET' && !/\/(pipelines|promotions)\/[^/]+$/.test(path)) return 'pass'
    const drawn = fraction(calls++)
    if (drawn < 0.1) return 'before'
    return drawn < 0.2 ? 'after' : 'pass'
  }
}

/** A controller over the proxy. `crash` cuts its client off without a farewell: whatever is under way ends there. */
function startOver(proxy: ApiProxy, number: number) {
  const kube = openKube(proxy.config)
  const settings = { workers: 48 }
  const controller = startTestController(server, { kube, settings, leadership: soleLeadership(`controller-${number}`) })
  return {
    records: controller.records,
    crash: async () => {
      await kube.close()
      await controller.stop()
    },
  }
}

test('promotions under lost answers, crashes and two leaders end as one record and one effect each', async () => {
  const [dev, prod] = await Promise.all([server.plane.namespace('dev'), server.plane.namespace('prod')])
  const names = Array.from({ length: COUNT }, (_, index) => `app-${index}`)
  const move = (namespace: string, name: string, lastAppliedRevision: string) =>
    setApp(server.kube, HELM_RELEASE, { namespace, name }, { conditions: [{ type: 'Ready', status: 'True' }], lastAppliedRevision })
  const environments = [
    { name: 'dev', targets: [{ namespace: dev }] },
    { name: 'prod', targets: [{ namespace: prod }] },
  ]
  await mapBounded(names, 16, async (name) => {
    await Promise.all([move(dev, name, 'v2'), move(prod, name, 'v1')])
    const spec = { appRef: { ...HELM_RELEASE, name }, environments, promotion: { strategy: { notification: {} } } }
    await server.kube.create({ ...PIPELINE, metadata: { namespace: dev, name }, spec })
  })
  const proxy = await openApiProxy(server.plane, onTestFinished, { isPlain: true })
  proxy.decide(randomFate())
  const steady = startOver(proxy, 0)
  // From the cache of the first controller: lists of all records would take most of the processor.
  const done = () =>
    [...steady.records.listPipelines()]
      .flatMap(({ uid }) => steady.records.listPromotions(uid))
      .filter((record) => phaseOf(record) === 'Applied').length
  // A second controller lives and dies beside the first until everything is promoted.
  let crashing = startOver(proxy, 1)
  for (let number = 2; done() < COUNT && number < 60; number++) {
    const before = done()
    await waitFor('some progress', () => done() >= Math.min(COUNT, before + Math.ceil(COUNT / 5)), { limitMs: 500_000 })
    await crashing.crash()
    crashing = startOver(proxy, number)
  }
  await Promise.all([steady.crash(), crashing.crash()])
  const all = (await server.kube.list(PROMOTION, { namespace: dev })).items.flatMap((item) => toPromotionRecord(item) ?? [])
  const events = (await server.kube.list({ apiVersion: 'v1', kind: 'Event' }, { namespace: dev })).items.filter(
    (event) => event['reason'] === 'Promote',
  )
  expect([all.length, new Set(all.map(({ spec }) => spec.pipelineRef.name)).size, events.length]).toEqual([COUNT, COUNT, COUNT])
  expect(all.filter(({ spec, status }) => spec.run !== 1 || spec.revision !== 'v2' || status.phase !== 'Applied')).toEqual([])
}, 600_000)
