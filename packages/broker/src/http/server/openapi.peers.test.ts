// The shipped API description, checked by a client that knows nothing of the broker: schemathesis sends requests for every operation,
// with ids that it found in answers, and compares status, headers and body of each answer with the document.
import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSchemathesis, type SchemathesisOptions } from '@brokkr/testing/servers/schemathesis.ts'
import { beforeAll, expect, test } from 'vitest'

/** About two minutes on two free cores. */
const limitMs = 900_000
const idsOf = (isWanted: (endpoint: Endpoint) => boolean): string[] =>
  Object.entries(endpoints).flatMap(([name, endpoint]) => (isWanted(endpoint) ? [operationId(name)] : []))
/** They delete what the others are about, or end the PAK that the run itself uses. */
const deletions = [...idsOf(({ method }) => method === 'DELETE'), 'rotate_admin_pak']
/** Served by other programs, none of which runs here: the broker answers 503 with a documented code. */
const forwarded = idsOf(({ path }) => /^\/api\/v1\/(pipelines|promotions|dataflow\/preview)(\/|$)/.test(path))
/** Their answers do not end. */
const streams = idsOf(({ stream }) => stream === true)

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await createGenerator(broker)
  await createAgent(broker, { generators: [tenant] })
  const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id } })
  const yaml_content = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default}\n'
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  await broker.admin.createWebhook({
    body: { name: unique('hook'), url: 'https://example.com/', event_types: ['*'], target_labels: ['nowhere'] },
  })
  return () => broker.kill()
})

const run = (pak: string, operations: SchemathesisOptions['operations'], allowedStatuses: readonly number[] = []) =>
  runSchemathesis({
    document: `${broker.url}/docs/openapi.json`,
    headers: { Authorization: `Bearer ${pak}` },
    operations,
    allowedStatuses,
    limitMs,
  })

test('every response of the broker matches its OpenAPI document', { timeout: limitMs + 60_000 }, async ({ annotate }) => {
  const { isClean, report } = await run(broker.adminPak, { without: [...streams, ...deletions, ...forwarded] })
  await annotate(report.split('\n').slice(-12).join('\n'))
  expect(isClean, report.slice(-8_000)).toBe(true)
  // With a PAK that ended on the way every answer would have been 401.
  expect((await broker.admin.listAgents({})).length).toBeGreaterThan(0)
})

test('every response about deletions matches the OpenAPI document', { timeout: limitMs + 60_000 }, async () => {
  const { pak } = await broker.admin.createAdminPak({ body: { name: unique('spare') } })
  const { isClean, report } = await run(pak, { only: deletions })
  expect(isClean, report.slice(-8_000)).toBe(true)
})

test('every response about forwarded operations matches the OpenAPI document', { timeout: limitMs + 60_000 }, async () => {
  expect(forwarded.length).toBeGreaterThan(0)
  const { isClean, report } = await run(broker.adminPak, { only: forwarded }, [503])
  expect(isClean, report.slice(-8_000)).toBe(true)
})
