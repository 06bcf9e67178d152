// No input yields 500: thousands of requests over every operation, most of them right but for one thing, by callers who may make
// them. The report tells what was answered how often, and which codes of the catalogue were never seen.
import { mkdirSync, writeFileSync } from 'node:fs'
import { Agent, request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { errorStatus } from '@brokkr/contract/errors.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { beforeAll, expect, test } from 'vitest'
import { mutateGently, mutateHarshly } from './fuzz-mutations.fixture.ts'
import { createRandom, type Random } from './fuzz-random.fixture.ts'
import { type FuzzRequest, validRequest } from './fuzz-requests.fixture.ts'
import { type FuzzWorld, makeFuzzWorld } from './fuzz-world.fixture.ts'

const count = size('fuzz.requests')
const seed = Number(process.env['BROKKR_SEED'] ?? Date.now() % 2 ** 32)
const lanesMax = 6
const names = Object.keys(endpoints) as EndpointName[]
/** Those that move targets wait for each other and come less often. */
const movesTargets = /^(create|delete|register|deregister|addTarget|removeTarget)|(Add|Remove)(Label|Annotation)$/
const weightOf = (name: EndpointName): number => (movesTargets.test(name) ? 2 : 5)
const drawn = names.flatMap((name) => Array.from({ length: weightOf(name) }, () => name))

const joining = { BROKKR__BROKER__AGENT_IMAGE: 'registry.example.com/brokkr-agent@sha256:0123' }
let broker: TestBroker
beforeAll(async () => {
  // Each call comes from an address of its own: failed sign-ins of one address are slowed down.
  broker = await startTestBroker({ env: { ...joining, BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1', BROKKR__LOG__LEVEL: 'info' } })
  return () => broker.kill()
})

interface Seen {
  readonly request: FuzzRequest
  readonly status: number
  readonly code: string | null
}

test(`no input yields 500: ${count} requests over every operation`, { timeout: 4 * 3_600_000 }, async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const bad: unknown[] = []
  const report = createReport()
  // Each operation goes out once as it should be before anything is changed, so that every handler is reached whatever the seed.
  const owed = [...names]
  const lanes = Array.from({ length: lanesMax }, async (_, lane) => {
    const random = createRandom(seed + lane)
    let world = await makeFuzzWorld(broker)
    for (let n = lane; n < count; n += lanesMax) {
      // Things change and go under such calls: from time to time, and when one is missed, they are made anew.
      if (n % 4000 < lanesMax && n > lanesMax) world = await makeFuzzWorld(broker)
      const plain = owed.shift()
      const making = plain === undefined ? makeRequest(world, random, n) : validRequest(world, random, plain)
      const request = await making.catch(async () => {
        world = await makeFuzzWorld(broker)
        return validRequest(world, random, plain ?? 'verifyPak')
      })
      let seen = await send(agent, request, n)
      report.add(seen)
      // What was done before may have taken away what it names: in a world where nothing was done yet it is right.
      if (plain !== undefined && !isExpected503(seen) && !report.reached.has(plain)) {
        world = await makeFuzzWorld(broker)
        seen = await send(agent, await validRequest(world, random, plain), n)
        report.add(seen)
      }
      if (plain !== undefined && isExpected503(seen)) owed.push(plain)
      else if (plain !== undefined && !report.reached.has(plain))
        bad.push({ seed, lane, n, why: 'a request that is right was refused', ...seen })
      if (seen.status >= 500 && !(seen.status === 501 || isExpected503(seen) || isWithoutProgram(seen)))
        bad.push({ seed, lane, n, ...seen })
    }
  })
  await Promise.all(lanes)
  agent.destroy()
  report.write()
  expect(bad.slice(0, 10)).toEqual([])
  expect(broker.lines().filter(({ msg }) => msg === 'request failed')).toEqual([])
  expect((await fetch(`${broker.url}/readyz`)).status).toBe(200)
  expect(report.reachedShare()).toBeGreaterThanOrEqual(0.5)
  expect(names.filter((name) => !report.reached.has(name))).toEqual([])
})

async function makeRequest(world: FuzzWorld, random: Random, n: number): Promise<FuzzRequest> {
  const request = await validRequest(world, random, drawn[n % drawn.length]!)
  if (random.chance(0.65)) mutateGently(world, random, request)
  else mutateHarshly(world, random, request)
  return request
}

/** Two changes of targeting at once wait for one lock, three seconds at most; the caller is told to come back. */
const isExpected503 = ({ code }: Seen): boolean => code === 'timeout'

/** Forwards to programs that do not run here. The answer to HEAD has no body and so no code. */
const isWithoutProgram = ({ code, status, request }: Seen): boolean =>
  code === 'pipelines_unavailable' ||
  code === 'preview_unavailable' ||
  (status === 503 && request.method === 'HEAD' && /^\/api\/v1\/(pipelines|promotions|dataflow)/.test(request.path))

async function send(agent: Agent, request: FuzzRequest, n: number): Promise<Seen> {
  const { promise, resolve, reject } = Promise.withResolvers<Seen>()
  const body = request.raw ?? (request.body === undefined ? null : Buffer.from(JSON.stringify(request.body)))
  const search = request.query.length === 0 ? '' : `?${new URLSearchParams(request.query).toString()}`
  const headers = {
    'x-forwarded-for': `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`,
    ...(body === null ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
    ...request.headers,
  }
  const { hostname, port } = new URL(broker.url)
  const sent = httpRequest({ agent, hostname, port, path: request.path + search, method: request.method, headers }, (response) => {
    const status = response.statusCode ?? 0
    const finish = (text: string) =>
      resolve({ request, status, code: status === 401 ? 'unauthorized' : status >= 400 ? codeOf(text) : null })
    if (status === 200 && /event-stream|ndjson/.test(response.headers['content-type'] ?? '')) {
      finish('')
      response.destroy()
      return
    }
    const chunks: Buffer[] = []
    response
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .once('end', () => finish(Buffer.concat(chunks).toString()))
      .once('error', reject)
  })
  // The broker may close on a caller that still sends what nobody will read.
  sent.once('error', (error: NodeJS.ErrnoException) =>
    error.code === 'EPIPE' || error.code === 'ECONNRESET' ? resolve({ request, status: 0, code: error.code }) : reject(error),
  )
  sent.end(body ?? undefined)
  return promise
}

function codeOf(text: string): string | null {
  if (text === '') return null
  return (JSON.parse(text) as { code: string }).code
}

/** Codes that only a handler, or what it calls, gives. */
const fromHandlers = new Set(
  (
    'unique_violation foreign_key_violation check_violation immutable_field limit_exceeded precondition_failed agent_id_mismatch stack_id_mismatch ' +
    'invalid_label invalid_annotation invalid_agent invalid_generator_id agent_label_not_found agent_annotation_not_found stack_label_not_found ' +
    'stack_annotation_not_found agent_target_not_found agent_not_registered already_registered missing_agent_id invalid_cursor ' +
    'invalid_deployment_object stack_moved rollback_to_marker invalid_health_record agent_event_not_found agent_not_associated not_found ' +
    'name_and_cluster_required bad_cursor clock_skew last_admin_pak not_available secret_already_issued idempotency_key_reused idempotency_in_progress ' +
    'webhook_not_found url_required invalid_url_scheme invalid_webhook unsupported_field webhook_test_failed delivery_not_found delivery_not_acquired_by_agent ' +
    'pipelines_unavailable preview_unavailable ' +
    'no_targeting_specified invalid_work_order work_order_not_found work_order_not_claimable work_order_log_entry_not_found work_order_attempt_stale ' +
    'inventory_base_unknown work_order_succeeded diagnostic_not_found diagnostic_already_claimed diagnostic_not_claimed invalid_diagnostic_request invalid_diagnostic_result'
  ).split(' '),
)

function createReport() {
  const statuses = new Map<number, number>()
  const codes = new Map<string, number>()
  const reached = new Set<EndpointName>()
  let [total, inHandler] = [0, 0]
  const add = ({ request, status, code }: Seen) => {
    total += 1
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (code !== null) codes.set(code, (codes.get(code) ?? 0) + 1)
    if ((status >= 200 && status < 400 && request.method !== 'OPTIONS') || (code !== null && fromHandlers.has(code))) {
      inHandler += 1
      reached.add(request.name)
    }
  }
  const share = (part: number) => Math.round((part / total) * 10_000) / 10_000
  const reachedShare = () => share(inHandler)
  const write = () => {
    const folder = join(import.meta.dirname, '../../../../../reports')
    mkdirSync(folder, { recursive: true })
    const sorted = <K extends string | number>(map: Map<K, number>) => Object.fromEntries([...map].toSorted((a, b) => b[1] - a[1]))
    const report = {
      seed,
      requests: total,
      reached_handler: reachedShare(),
      statuses: Object.fromEntries([...statuses].toSorted(([a], [b]) => a - b).map(([status, n]) => [status, share(n)])),
      codes: sorted(codes),
      codes_never_seen: Object.keys(errorStatus).filter((code) => !codes.has(code)),
    }
    writeFileSync(join(folder, 'fuzz.json'), `${JSON.stringify(report, null, 2)}\n`)
  }
  return { add, write, reached, reachedShare }
}
