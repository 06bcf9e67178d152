// The border between tenants: every field of the contract that names a thing, pointed from one tenant at another's. The answer is
// a refusal, and not a row of either has changed.
// long: every field of the contract that names a thing
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { ask } from '../server/http-call.fixture.ts'
import { type Reference, tenantCall } from './generator-calls.fixture.ts'
import { makeTenant, quietBroker, rowsOfAll, type Tenant } from './two-generators.fixture.ts'

let broker: TestBroker
let mine: Tenant
let theirs: Tenant
beforeAll(async () => {
  broker = await startTestBroker({ env: quietBroker })
  mine = await makeTenant(broker)
  theirs = await makeTenant(broker)
  return () => broker.kill()
}, 120_000)

/** Every field with the form of an id, wherever it stands in the contract. */
const references: Reference[] = (Object.entries(endpoints) as [EndpointName, Endpoint][]).flatMap(([name, endpoint]) =>
  (['params', 'query', 'body'] as const).flatMap((place) => {
    const type = endpoint[place]
    return type === undefined ? [] : idFields(z.toJSONSchema(type, { io: 'input' })).map((field) => ({ name, in: place, field }))
  }),
)

function idFields(schema: unknown, at = ''): string[] {
  const { format, properties, items, anyOf } = schema as { format?: string; properties?: object; items?: unknown; anyOf?: unknown[] }
  if (format === 'uuid') return [at]
  const inside = Object.entries(properties ?? {}).flatMap(([key, entry]) => idFields(entry, at === '' ? key : `${at}.${key}`))
  const branches = (anyOf ?? []).flatMap((branch) => idFields(branch, at))
  return [...inside, ...branches, ...(items === undefined ? [] : idFields(items, `${at}[]`))]
}

test('[X13] references are checked at every position of a request', () => {
  const found = references.map(({ name, in: place, field }) => `${name} ${place} ${field}`)
  for (const one of ['getStack params id', 'listStacks query pak_id', 'createStack body generator_id', 'createAgent body generator_ids[]'])
    expect(found).toContain(one)
  for (const one of [
    'reportStatus body stacks[].object_id',
    'createEvents body events[].deployment_object_id',
    'removeTarget params stack_id',
  ])
    expect(found).toContain(one)
})

test.each(references.map((reference): [string, Reference] => [`${reference.name} ${reference.in} ${reference.field}`, reference]))(
  '[X13] %s that names a thing of another tenant is refused, and no row changes',
  async (_, reference) => {
    const { call, body } = tenantCall(reference.name, mine, { reference, tenant: theirs })
    const before = await rowsOfAll(broker.databaseUrl)
    // Whatever agent it names, an agent deregisters itself: that is its own, and looked at elsewhere.
    const isOwn = reference.name === 'deregisterAgent' && reference.in === 'body'
    for (const pak of isOwn ? [mine.generatorPak] : [mine.generatorPak, mine.agentPak]) {
      const answer = await ask(broker, call, { pak, ...(body === undefined ? {} : { body }) })
      // Ending a registration that is not there is no error.
      const isEmpty =
        answer.status === 204 ? reference.name === 'deregisterAgent' : [200, 202].includes(answer.status) && isNothingOfTheirs(answer.text)
      expect([answer.status, answer.text, isEmpty || [400, 403, 404, 409, 422].includes(answer.status)]).toEqual([
        answer.status,
        answer.text,
        true,
      ])
      for (const secret of [theirs.agentName, theirs.label, theirs.agentPak]) expect(answer.text).not.toContain(secret)
    }
    expect(await rowsOfAll(broker.databaseUrl)).toEqual(before)
  },
)

/** A filter that names another's thing finds nothing; reports about it are counted as ignored or refused. */
function isNothingOfTheirs(text: string): boolean {
  const value: unknown = JSON.parse(text)
  if (Array.isArray(value)) return !text.includes(theirs.stackId) && !text.includes(theirs.agentId)
  const { accepted, results } = value as { accepted?: number; results?: { status: string }[] }
  return accepted === 0 || results?.every(({ status }) => status === 'refused') === true
}

test('[X13] an agent registers itself with no generator that its creation did not name', async () => {
  const answer = await ask(broker, `POST /generators/${theirs.generatorId}/register`, { pak: mine.agentPak, body: {} })
  expect([answer.status, answer.code]).toEqual([403, 'forbidden'])
  const own = await mine.agent.listAgentRegistrations({ params: { id: mine.agentId } })
  expect(own.map(({ generator_id }) => generator_id)).not.toContain(theirs.generatorId)
})
