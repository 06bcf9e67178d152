import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { configMap, openBrokerProxy, openStackStages, openStackStrategy, submittedStackOf } from '../test-parts/stack-stages.ts'
import { closeServer, openManagement, type Server, startTestController } from '../test-parts/world.ts'

let server: Server
let broker: TestBroker
let stack: ReturnType<typeof openStackStrategy>
let controller: ReturnType<typeof startTestController>

beforeAll(async () => {
  ;[server, broker] = await Promise.all([openManagement(), startTestBroker()])
  stack = openStackStrategy()
  controller = startTestController(server, { strategies: [stack.strategy], brokers: stack.brokers, settings: { stackPollMs: 200 } })
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await stack?.close()
  await broker?.stop()
  await closeServer(server)
})

async function wakeOften(key: string): Promise<void> {
  for (let count = 0; count < 20; count++) {
    controller.wake(key)
    await controller.whenIdle()
  }
}

/** Forwards to the broker and loses the answers of the first submissions. */
async function openLossyProxy(losses: number): Promise<{ url: string; submissions: string[] }> {
  const submissions: string[] = []
  const url = await openBrokerProxy(broker.url, (call) => {
    if (submittedStackOf(call) === null) return 'pass'
    return submissions.push(call.idempotencyKey) <= losses ? 'after' : 'pass'
  })
  return { url, submissions }
}

test('[P18] a stack is ready when every agent has applied its head, and its revision is the checksum', async () => {
  const stages = await openStackStages(server, broker, { agents: 2 })
  const { yaml_checksum: revision } = await stages.submit('dev', configMap('one'))
  await stages.apply('dev', stages.agents[0])
  await stages.create()
  await stages.waitForTarget('dev', { ready: false, revision })
  await stages.apply('dev', stages.agents[1])
  await stages.waitForTarget('dev', { ready: true, revision })
})

test('[P61] Copy submits the object of the earlier environment once', async () => {
  const stages = await openStackStages(server, broker)
  await stages.submit('prod', configMap('zero'))
  await stages.submit('dev', configMap('one'))
  await stages.apply('dev')
  await stages.create()
  const [head] = await stages.listObjects('dev')
  await stages.waitForPhases(`1 prod ${head!.yaml_checksum} Applied`)
  await wakeOften(stages.key)
  const copies = await stages.listObjects('prod')
  expect(copies.map(({ yaml_checksum }) => yaml_checksum === head!.yaml_checksum)).toEqual([true, false])
  expect((await stages.promotions())[0]?.status.effect?.deploymentObjectIds).toEqual([copies[0]!.id])
  await stages.apply('prod')
  await stages.waitForPhases(`1 prod ${head!.yaml_checksum} Succeeded`)
})

test('[C14] a submission whose answer is lost is repeated under its key and makes one object', async () => {
  const proxy = await openLossyProxy(1)
  const stages = await openStackStages(server, broker, { url: proxy.url })
  const { yaml_checksum: revision } = await stages.submit('dev', configMap('one'))
  await stages.apply('dev')
  await stages.create()
  await stages.waitForPhases(`1 prod ${revision} Applied`)
  const [promotion] = await stages.promotions()
  expect(promotion?.status.attempts?.map(({ outcome }) => outcome)).toEqual(['failed', 'succeeded'])
  expect(new Set(proxy.submissions).size).toBe(1)
  expect(proxy.submissions[0]).toMatch(new RegExp(`^${promotion?.spec.key}-0-[0-9a-f]{8}$`))
  expect(await stages.listObjects('prod')).toHaveLength(1)
})

test('[C14] a submission whose mark is lost is adopted by its checksum', async () => {
  const proxy = await openLossyProxy(0)
  const stages = await openStackStages(server, broker, { url: proxy.url })
  const { yaml_checksum: revision } = await stages.submit('dev', configMap('one'))
  await stages.apply('dev')
  await stages.create()
  await stages.waitForPhases(`1 prod ${revision} Applied`)
  const [before] = await stages.promotions()
  const [object] = await stages.listObjects('prod')
  // As a crash after the submission leaves it.
  const running = { number: 1, startedAt: new Date().toISOString(), outcome: 'running' }
  await stages.patchPromotion(before!.name, { phase: 'Running', attempts: [running], effect: null })
  await stages.waitForPhases(`1 prod ${revision} Applied`)
  await wakeOften(stages.key)
  const [after] = await stages.promotions()
  expect([after?.status.effect?.deploymentObjectIds, after?.status.attemptCount]).toEqual([[object!.id], 1])
  expect([proxy.submissions.length, (await stages.listObjects('prod')).length]).toEqual([1, 1])
})

test('Marker edits the marked value of the head and reads the revision back from it', async () => {
  const stages = await openStackStages(server, broker, { mode: 'Marker' })
  const manifest = (environment: string, image: string) =>
    configMap(`${image} # {"$promotion": "${stages.namespace}:podinfo:${environment}:tag"}`)
  await stages.submit('dev', manifest('dev', 'r/x:2'))
  await stages.submit('prod', manifest('prod', 'r/x:1'))
  await stages.apply('dev')
  await stages.create()
  await stages.waitForPhases('1 prod 2 Applied')
  expect((await stages.listObjects('prod'))[0]?.yaml_content).toBe(manifest('prod', 'r/x:2'))
  await stages.apply('prod')
  await stages.waitForPhases('1 prod 2 Succeeded')
})

test('an unreachable broker makes stacks indefinite, and nothing is promoted', async () => {
  const stages = await openStackStages(server, broker, { url: 'http://127.0.0.1:1' })
  await stages.submit('dev', configMap('one'))
  await stages.create()
  await stages.waitForReady('TargetNotReadable')
  await stages.waitForTarget('dev', { error: /could not be reached/ })
  expect(await stages.promotions()).toEqual([])
})

test('a PAK that the broker refuses blocks the promotion until the Secret changes', async () => {
  const stages = await openStackStages(server, broker)
  const { yaml_checksum: revision } = await stages.submit('dev', configMap('one'))
  await stages.apply('dev')
  await stages.create()
  await stages.waitForPhases(`1 prod ${revision} Applied`)
  const secret = { apiVersion: 'v1', kind: 'Secret', namespace: stages.namespace, name: 'broker' }
  await server.kube.patch(secret, { type: 'merge', body: { data: { pak: Buffer.from('brokkr_BRwrong_nonsense').toString('base64') } } })
  const { name } = (await stages.promotions())[0]!
  await stages.patchPromotion(name, { phase: 'Queued' })
  await stages.waitForPhases(`1 prod ${revision} Blocked`)
  await server.kube.patch(secret, { type: 'merge', body: { data: { pak: Buffer.from(stages.tenant.pak).toString('base64') } } })
  await waitFor('the end of the block', async () => (await stages.phases())[0] === `1 prod ${revision} Applied`)
})
