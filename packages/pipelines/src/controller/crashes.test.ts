// long: the program is killed at every write and effect of a promotion

import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PromotionRecord, phaseOf, toPromotionRecord } from '../objects.ts'
import { type ApiProxy, type Call, type Decision, openApiProxy } from '../test-parts/api-proxy.ts'
import { type ForgeSite, marked, openForgeSite } from '../test-parts/forge-world.ts'
import { configMap, openBrokerProxy, openStackStages, submittedStackOf } from '../test-parts/stack-stages.ts'
import { closeServer, HELM_RELEASE, kubeconfigFor, openManagement, type Server, setRelease } from '../test-parts/world.ts'

/** The k-th request of a kind, as seen by the server that answers it. */
const POINTS = {
  W0: { server: 'api', request: /^PATCH .*\/pipelines\/[^/]+\/status$/, count: 1 },
  W1: { server: 'api', request: /^POST .*\/promotions$/, count: 1 },
  'first phase': { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 1 },
  W2: { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 2 },
  E1: { server: 'git', request: /^POST .*git-receive-pack$/, count: 1 },
  W3: { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 3 },
  E2: { server: 'forge', request: /^POST .*\/pulls$/, count: 1 },
  W4: { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 4 },
  E3: { server: 'forge', request: /^GET .*\/pulls\/1$/, count: 1 },
  W5: { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 5 },
  W6: { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 6 },
  W7: { server: 'api', request: /^POST .*\/events$/, count: 1 },
  'E2 of a notification': { server: 'receiver', request: /./, count: 1 },
  /** The first one after the post has arrived. */
  'W4 of a notification': { server: 'api', request: /^PATCH .*\/promotions\/[^/]+\/status$/, count: 1 },
  'E1 of a stack': { server: 'broker', request: /^POST /, count: 1 },
} as const
type Point = keyof typeof POINTS

/** Rows of the crash table, by the point and the time of the crash. */
const CRASHES: readonly [row: string, point: Point, time: 'before' | 'after'][] = [
  ['C1', 'W0', 'before'],
  ['C1', 'W0', 'after'],
  ['C1', 'W1', 'before'],
  ['C2', 'W1', 'after'],
  ['C2', 'first phase', 'before'],
  ['C2', 'first phase', 'after'],
  ['C2', 'W2', 'before'],
  ['C3', 'W2', 'after'],
  ['C3', 'E1', 'before'],
  ['C4', 'E1', 'after'],
  ['C4', 'W3', 'before'],
  ['C4', 'W3', 'after'],
  ['C6', 'E2', 'before'],
  ['C6', 'E2', 'after'],
  ['C6', 'W4', 'before'],
  ['C6', 'W4', 'after'],
  ['C6', 'E3', 'before'],
  ['C6', 'E3', 'after'],
  ['C6', 'W5', 'before'],
  ['C6', 'W5', 'after'],
  ['C6', 'W6', 'before'],
  ['C6', 'W6', 'after'],
  ['C6', 'W7', 'before'],
  ['C6', 'W7', 'after'],
  ['C13', 'E2 of a notification', 'before'],
  ['C13', 'E2 of a notification', 'after'],
  ['C13', 'W4 of a notification', 'before'],
  ['C13', 'W4 of a notification', 'after'],
  ['C14', 'E1 of a stack', 'before'],
  ['C14', 'E1 of a stack', 'after'],
]
const LOST: readonly [row: string, point: Point][] = [
  ['C1', 'W0'],
  ['C2', 'W1'],
  ['C2', 'first phase'],
  ['C3', 'W2'],
  ['C4', 'E1'],
  ['C4', 'W3'],
  ['C7', 'E2'],
  ['C6', 'W4'],
  ['C6', 'E3'],
  ['C6', 'W5'],
  ['C6', 'W6'],
  ['C6', 'W7'],
  ['C13', 'E2 of a notification'],
  ['C13', 'W4 of a notification'],
  ['C14', 'E1 of a stack'],
]

class World {
  readonly point: Point
  readonly time: 'before' | 'after'
  readonly isKilled: boolean
  namespaces: { own: string; dev: string; prod: string } = { own: '', dev: '', prod: '' }
  site: ForgeSite | null = null
  stages: Awaited<ReturnType<typeof openStackStages>> | null = null
  hasFailed = false
  #requests = 0

  constructor(point: Point, time: 'before' | 'after', isKilled: boolean) {
    this.point = point
    this.time = time
    this.isKilled = isKilled
  }

  get isNotification(): boolean {
    return this.point.endsWith('of a notification')
  }

  /** True once: at the request of this world's point. */
  reaches(server: string, request: string): boolean {
    const { server: own, request: pattern, count } = POINTS[this.point]
    if (this.point === 'W4 of a notification' && !posts.some(({ pipeline }) => pipeline === this.namespaces.own)) return false
    if (this.hasFailed || own !== server || !pattern.test(request) || ++this.#requests !== count) return false
    this.hasFailed = true
    return true
  }
}

const closers: (() => unknown)[] = []
const killed = CRASHES.map(([, point, time]) => new World(point, time, true))
const losing = LOST.map(([, point]) => new World(point, 'after', false))
const worlds = [...killed, ...losing]
const posts: { key: string; pipeline: string }[] = []
const submissions: { key: string; stack: string }[] = []
let server: Server
let broker: TestBroker
let records: PromotionRecord[] = []

beforeAll(async () => {
  server = await openManagement()
  const program = new RestartedProgram()
  const proxy = await openApiProxy(server.plane, (close) => closers.push(close))
  proxy.decide(({ method, path }): Decision => {
    const world = worlds.find(({ namespaces }) => path.includes(`/namespaces/${namespaces.own}/`))
    if (world === undefined || !world.reaches('api', `${method} ${path}`)) return 'pass'
    return { fate: world.time, onFault: () => world.isKilled && program.kill() }
  })
  const eventsUrl = await openReceiver(program)
  broker = await startTestBroker()
  const brokerUrl = await openBrokerProxy(
    broker.url,
    (call) => loseSubmission(call, program),
    (close) => closers.push(close),
  )
  for (const world of worlds) await (world.point === 'E1 of a stack' ? openStackWorld(world, brokerUrl) : openWorld(world, program))
  await program.start(proxy, eventsUrl)
  closers.push(() => program.stop())
  await waitFor('all promotions', () => advanceWorlds(), {
    limitMs: 400_000,
    everyMs: 300,
    onTimeout: () =>
      JSON.stringify([
        worlds.filter(({ hasFailed }) => !hasFailed).map(({ point }) => point),
        records.map((each) => [each.spec.pipelineRef.name, each.status.phase, each.status.message]),
      ]) + program.logTail(),
  })
}, 500_000)

afterAll(async () => {
  for (const close of closers.toReversed()) await close()
  for (const { site } of worlds) await site?.close()
  await broker?.stop()
  await closeServer(server)
})

/** The program under test: SIGKILL, then started again. */
class RestartedProgram {
  #process: ProgramProcess | null = null
  #starting: Promise<void> = Promise.resolve()
  #start: () => Promise<ProgramProcess> = () => Promise.reject(new Error('not started'))
  #isStopped = false

  async start(proxy: ApiProxy, eventsUrl: string): Promise<void> {
    const { server: url, ca } = proxy.config
    this.#start = async () => {
      const caPem = ca !== undefined && 'pem' in ca ? ca.pem : ''
      const path = `${server.plane.kubeconfigPath}.proxied`
      await writeFile(path, kubeconfigFor(url, `{ token: "${server.plane.token}" }`, caPem))
      const settings = {
        kubeconfig_path: path,
        namespace: 'default',
        leader_elect: false,
        metrics_port: 0,
        health_probe_port: 0,
        promotion_hook_port: 0,
        bind_host: '127.0.0.1',
        allow_insecure_git: true,
        events_addr: eventsUrl,
        pull_request_poll: 0.5,
        promotion_retry_delay: 0.1,
        promotion_retry_max_delay: 1,
        promotion_settle: 0,
        stack_poll: 0.5,
        workers: 16,
      }
      const env = Object.fromEntries(
        Object.entries(settings).map(([name, value]) => [`BROKKR__PIPELINES__${name.toUpperCase()}`, String(value)]),
      )
      const main = 'packages/pipelines/src/test-parts/program.ts'
      return startProgram({ name: 'pipelines', main, env: { ...env, PATH: process.env['PATH'] ?? '' } })
    }
    this.#process = await this.#start()
  }

  /** At once: no further line of the program runs. A request of a program that was killed already ends with it. */
  kill(): void {
    const running = this.#process
    if (running === null) return
    process.kill(running.pid, 'SIGKILL')
    this.#process = null
    this.#starting = this.#restart(running.exited)
  }

  async #restart(exited: Promise<unknown>): Promise<void> {
    await exited
    if (!this.#isStopped) this.#process = await this.#start()
  }

  logTail = (): string => this.#process?.logTail(20) ?? ''

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#starting
    await this.#process?.kill()
  }
}

async function openReceiver(program: RestartedProgram): Promise<string> {
  const receiver = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { involvedObject } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { involvedObject: { namespace: string } }
      const world = worlds.find(({ namespaces }) => namespaces.own === involvedObject.namespace)
      const isFault = world?.reaches('receiver', 'POST /') === true
      if (!isFault || world?.time === 'after')
        posts.push({ key: String(request.headers['idempotency-key']), pipeline: involvedObject.namespace })
      if (isFault && world?.isKilled) program.kill()
      if (isFault) request.socket.destroy()
      else response.writeHead(202).end()
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  closers.push(() => receiver.close())
  return `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
}

async function openWorld(world: World, program: RestartedProgram): Promise<void> {
  const { kube, plane } = server
  const [own, dev, prod] = await Promise.all([plane.namespace('pipe'), plane.namespace('dev'), plane.namespace('prod')])
  const environments = [
    { name: 'dev', targets: [{ namespace: dev }] },
    { name: 'prod', targets: [{ namespace: prod }] },
  ]
  await Promise.all([setRelease(kube, dev, '6.0.0'), setRelease(kube, prod, '5.0.0')])
  world.site = world.isNotification ? null : await openSite(world, own, program)
  const strategy =
    world.site === null ? { notification: {} } : { 'pull-request': { ...world.site.pullRequest, secretRef: { name: 'git' } } }
  world.namespaces = { own, dev, prod }
  await kube.create({
    ...PIPELINE,
    metadata: { namespace: own, name: 'podinfo' },
    spec: { appRef: { ...HELM_RELEASE, name: 'podinfo' }, environments, promotion: { strategy } },
  })
}

function loseSubmission(call: Call & { readonly idempotencyKey: string }, program: RestartedProgram): Decision {
  const stack = submittedStackOf(call)
  const world = worlds.find(({ stages }) => stack !== null && stages?.stacks.prod.id === stack)
  if (world === undefined || stack === null) return 'pass'
  submissions.push({ key: call.idempotencyKey, stack })
  if (!world.reaches('broker', `${call.method} ${call.path}`)) return 'pass'
  return { fate: world.time, onFault: () => world.isKilled && program.kill() }
}

async function openStackWorld(world: World, url: string): Promise<void> {
  const stages = await openStackStages(server, broker, { url })
  await stages.submit('dev', configMap('one'))
  await stages.apply('dev')
  world.stages = stages
  world.namespaces = { own: stages.namespace, dev: '', prod: '' }
  await stages.create()
}

async function openSite(world: World, namespace: string, program: RestartedProgram): Promise<ForgeSite> {
  const onFault = () => world.isKilled && program.kill()
  const kind = `drop-${world.time}` as const
  const site = await openForgeSite({
    files: { 'release.yaml': marked('5.0.0', `${namespace}:podinfo:prod`) },
    gitFault: (request) => (world.reaches('git', request) ? { kind, onFault } : null),
  })
  const { server: own, request: route } = POINTS[world.point]
  if (own === 'forge') site.forge.faults.push({ route, kind, times: 1, onFault: () => void ((world.hasFailed = true), onFault()) })
  const data = Object.fromEntries(Object.entries(site.secret).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
  await server.kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: 'git' }, data })
  return site
}

/** A person merges pull requests, and the targets follow. True: every promotion has succeeded. */
async function advanceWorlds(): Promise<boolean> {
  records = (await server.kube.list(PROMOTION)).items.flatMap((item) => toPromotionRecord(item) ?? [])
  for (const { stages } of worlds) await stages?.beat()
  for (const record of records) {
    const world = worlds.find(({ namespaces }) => namespaces.own === record.namespace)
    if (world === undefined || phaseOf(record) !== 'Applied') continue
    if (world.stages !== null) {
      await world.stages.apply('prod')
      continue
    }
    const pull = world.site?.forge.pulls[0]
    if (pull?.state === 'open') await world.site?.forge.merge(1)
    else if (record.status.effect?.prState === 'merged' || world.site === null)
      await setRelease(server.kube, world.namespaces.prod, '6.0.0')
  }
  return (
    records.length >= worlds.length &&
    records.every((record) => phaseOf(record) === 'Succeeded') &&
    worlds.every(({ hasFailed }) => hasFailed)
  )
}

/** Posts that arrived before the crash or the loss, at the least: the post before a lost mark is repeated. */
const postsMin = ({ point, time }: World): number =>
  (point === 'E2 of a notification' && time === 'after') || (point === 'W4 of a notification' && time === 'before') ? 2 : 1

/** One record of run 1, and one pull request whose branch is gone, or one Event and posts under one key. */
async function expectOneEffect(world: World): Promise<void> {
  const own = records.filter(({ namespace }) => namespace === world.namespaces.own)
  if (world.stages !== null) return expectOneObject(world.stages, own)
  expect(own.map(({ spec, status }) => [spec.run, spec.revision, status.phase])).toEqual([[1, '6.0.0', 'Succeeded']])
  const keys = posts.filter(({ pipeline }) => pipeline === world.namespaces.own).map(({ key }) => key)
  expect(new Set(keys)).toEqual(new Set(world.isNotification ? [own[0]!.spec.key] : []))
  if (world.site === null) {
    expect(keys.length).toBeGreaterThanOrEqual(postsMin(world))
    const { items } = await server.kube.list({ apiVersion: 'v1', kind: 'Event' }, { namespace: world.namespaces.own })
    const promote = items.filter((event) => event['reason'] === 'Promote')
    expect(promote.map(({ metadata }) => metadata.name)).toEqual([`${own[0]!.name}.promote`])
    return
  }
  expect(world.site.forge.pulls).toMatchObject([{ state: 'merged', head: own[0]!.status.effect?.branch }])
  expect(await world.site.repository.branches()).toEqual(['main'])
  expect(await world.site.repository.read('main', 'release.yaml')).toContain('tag: 6.0.0')
}

/** One record, and one object of the earlier stack, however often it was submitted. */
async function expectOneObject(stages: NonNullable<World['stages']>, own: readonly PromotionRecord[]): Promise<void> {
  const [[head], copies] = [await stages.listObjects('dev'), await stages.listObjects('prod')]
  expect(own.map(({ spec, status }) => [spec.run, spec.revision, status.phase])).toEqual([[1, head!.yaml_checksum, 'Succeeded']])
  expect(copies.map(({ yaml_checksum }) => yaml_checksum)).toEqual([head!.yaml_checksum])
  expect(own[0]?.status.effect?.deploymentObjectIds).toEqual([copies[0]!.id])
  const keys = submissions.filter(({ stack }) => stack === stages.stacks.prod.id).map(({ key }) => key)
  expect(new Set(keys).size).toBe(1)
}

test.each(CRASHES.map((crash, index) => [...crash, index] as const))(
  '[%s] a kill at %s, %s it, leaves one record and one effect',
  async (_row, _point, _time, index) => expectOneEffect(killed[index]!),
)

test.each(LOST.map((loss, index) => [...loss, index] as const))(
  '[%s] a lost answer of %s leaves one record and one effect',
  async (_row, _point, index) => expectOneEffect(losing[index]!),
)
