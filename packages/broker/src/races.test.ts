// Two brokers on one database and many callers at once: of each decision there is one outcome, everybody else gets a stable answer,
// no number is given twice and nothing that was acknowledged is lost.
import { hash } from 'node:crypto'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { size } from '@brokkr/testing/sizes.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type Ask, type Asked, ask } from './http/server/http-call.fixture.ts'

let brokers: [TestBroker, TestBroker]
let tenant: TestGenerator
let agent: TestAgent
beforeAll(async () => {
  const first = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  brokers = [first, await first.sibling()]
  tenant = await createGenerator(first)
  agent = await createAgent(first, { generators: [tenant] })
  return async () => {
    await Promise.all(brokers.map((broker) => broker.kill()))
  }
}, 120_000)

const makeStack = () => tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
const at = (n: number): TestBroker => brokers[n % 2]!
const crowd = 20

/** The same call by everybody at once, through both brokers. */
const all = (call: `${string} /${string}`, options: (n: number) => Ask = () => ({})): Promise<Asked[]> =>
  Promise.all(Array.from({ length: crowd }, (_, n) => ask(at(n), call, options(n))))

function outcomes(answers: readonly Asked[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { status, code } of answers) counts[`${status} ${code ?? ''}`.trim()] = (counts[`${status} ${code ?? ''}`.trim()] ?? 0) + 1
  return counts
}
const oneOf = (won: string, lost: string): Record<string, number> => ({ [won]: 1, [lost]: crowd - 1 })

test('[X30] concurrent creations of a resource succeed once and return a conflict otherwise', async () => {
  const name = unique('same')
  expect(outcomes(await all('POST /generators', () => ({ body: { name } })))).toEqual(oneOf('201', '409 unique_violation'))
  const stack = await makeStack()
  const path = `/stacks/${stack.id}` as const
  expect(outcomes(await all(`POST ${path}/labels`, () => ({ pak: tenant.pak, body: 'l' })))).toEqual(oneOf('201', '409 unique_violation'))
  const target = { agent_id: agent.agent.id, stack_id: stack.id }
  expect(outcomes(await all(`POST /agents/${agent.agent.id}/targets`, () => ({ pak: tenant.pak, body: target })))).toEqual(
    oneOf('201', '409 unique_violation'),
  )
  const other = await createGenerator(brokers[0])
  const body = { agent_id: agent.agent.id }
  expect(outcomes(await all(`POST /generators/${other.generator.id}/register`, () => ({ body })))).toEqual(
    oneOf('201', '409 already_registered'),
  )
})

test('[X30] concurrent submissions with one expected head succeed once', async () => {
  const stack = await makeStack()
  const path = `/stacks/${stack.id}` as const
  const yaml_content = 'a: 1'
  const first = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  const submitted = await all(`POST ${path}/deployment-objects?expected_sequence_id=${first.sequence_id}`, () => ({
    pak: tenant.pak,
    body: { yaml_content },
  }))
  expect(outcomes(submitted)).toEqual(oneOf('201', '409 stack_moved'))
  const head = submitted.map(({ json }) => (json as { sequence_id?: number }).sequence_id).find((sequence) => sequence !== undefined)
  const back = await all(`POST ${path}/rollback`, () => ({
    pak: tenant.pak,
    body: { deployment_object_id: first.id, expected_sequence_id: head },
  }))
  expect(outcomes(back)).toEqual(oneOf('201', '409 stack_moved'))
})

test('[X30] concurrent calls with one Idempotency-Key have one effect', async () => {
  const stack = await makeStack()
  const path = `/stacks/${stack.id}/deployment-objects` as const
  const answers = await all(`POST ${path}`, () => ({
    pak: tenant.pak,
    body: { yaml_content: 'a: 1' },
    headers: { 'idempotency-key': 'one' },
  }))
  const made = answers.filter(({ status }) => status === 201)
  expect(new Set(made.map(({ text }) => text)).size).toBe(1)
  expect(made.filter((answer) => answer.header('idempotency-replayed') === null)).toHaveLength(1)
  for (const { status, code } of answers.filter((answer) => answer.status !== 201))
    expect([status, code]).toEqual([409, 'idempotency_in_progress'])
  expect(await tenant.client.listDeploymentObjects({ params: { id: stack.id } })).toHaveLength(1)
})

test('[X30] concurrent rotations leave one valid PAK', async () => {
  const fresh = await createAgent(brokers[0], { generators: [tenant] })
  const answers = await all(`POST /agents/${fresh.agent.id}/rotate-pak`)
  const paks = answers.filter(({ status }) => status === 200).map(({ json }) => (json as { pak: string }).pak)
  expect(new Set(paks).size).toBe(paks.length)
  const open = await Promise.all([fresh.pak, ...paks].map(async (pak) => (await ask(brokers[1], 'POST /auth/pak', { pak })).status))
  // Feeds of both processes tell of dead keys within a second.
  await expect
    .poll(
      async () =>
        (await Promise.all([fresh.pak, ...paks].map(async (pak) => (await ask(brokers[1], 'POST /auth/pak', { pak })).status))).filter(
          (status) => status === 200,
        ).length,
      { timeout: 30_000 },
    )
    .toBe(1)
  expect(open).toContain(200)
})

test('[X30] concurrent deletions leave one deletion marker and one full admin PAK', async () => {
  const stack = await makeStack()
  expect(outcomes(await all(`DELETE /stacks/${stack.id}`, () => ({ pak: tenant.pak })))).toEqual(oneOf('204', '404 stack_not_found'))
  const client = new pg.Client({ connectionString: brokers[0].databaseUrl })
  await client.connect()
  const markers = await client.query('select from deployment_objects where stack_id = $1 and is_deletion_marker', [stack.id])
  expect(markers.rowCount).toBe(1)
  const second = await brokers[0].admin.createAdminPak({ body: { name: 'second' } })
  const { rows } = await client.query<{ id: string }>(
    'select id from admin_role where deleted_at is null and not readonly and expires_at is null',
  )
  await client.end()
  expect(rows).toHaveLength(2)
  const paks = [brokers[0].adminPak, second.pak]
  const revoked = await Promise.all(rows.map(({ id }, n) => ask(at(n), `DELETE /admin/paks/${id}`, { pak: paks[n]! })))
  // One may find its own key dead before it gets its turn.
  expect(revoked.filter(({ status }) => status === 204).length).toBeLessThanOrEqual(1)
  const left = await Promise.all(paks.map(async (pak) => (await ask(brokers[0], 'POST /auth/pak', { pak })).status))
  expect(left).toContain(200)
})

test('[X30] two brokers under load assign rising sequence numbers in commit order', {
  timeout: 240_000,
}, async () => {
  const stacks = await Promise.all(Array.from({ length: 4 }, makeStack))
  const rounds = size('twoBrokers.submissions')
  const client = new pg.Client({ connectionString: brokers[0].databaseUrl })
  await client.connect()
  const acknowledged = new Map<string, { stack: string; sequence: number; checksum: string }>()
  const writers = Array.from({ length: 16 }, async (_, writer) => {
    for (let n = 0; n < rounds / 16; n += 1) {
      const stack = stacks[(writer + n) % stacks.length]!
      const yaml_content = `a: ${writer}-${n}`
      const answer = await ask(at(writer + n), `POST /stacks/${stack.id}/deployment-objects`, { pak: tenant.pak, body: { yaml_content } })
      expect([answer.status, answer.text.slice(0, 200)]).toEqual([201, answer.text.slice(0, 200)])
      const { id, sequence_id } = answer.json as { id: string; sequence_id: number }
      acknowledged.set(id, { stack: stack.id, sequence: sequence_id, checksum: hash('sha256', yaml_content) })
      // Renames take numbers of the same line.
      if (n % 7 === 0) await ask(at(n), `PUT /stacks/${stack.id}`, { pak: tenant.pak, body: { name: unique('r') } })
    }
  })
  const looks: { stack_id: string; numbers: string; highest: string }[] = []
  const over = new AbortController()
  const observer = (async () => {
    while (!over.signal.aborted) {
      const seen = await client.query<(typeof looks)[number]>(
        'select stack_id, count(*) as numbers, max(sequence_id) as highest from deployment_objects where stack_id = any($1) group by 1',
        [stacks.map(({ id }) => id)],
      )
      looks.push(...seen.rows)
    }
  })()
  await Promise.all(writers).finally(() => over.abort())
  await observer
  const { rows } = await client.query<{ id: string; stack_id: string; sequence_id: string; yaml_checksum: string; head: string }>(
    `select o.id, o.stack_id, o.sequence_id, o.yaml_checksum, s.head_object_id as head from deployment_objects o join stacks s on s.id = o.stack_id
     where o.stack_id = any($1) order by o.stack_id, o.sequence_id`,
    [stacks.map(({ id }) => id)],
  )
  expect(rows.map(({ id }) => id).toSorted()).toEqual([...acknowledged.keys()].toSorted())
  for (const row of rows)
    expect({ stack: row.stack_id, sequence: Number(row.sequence_id), checksum: row.yaml_checksum }).toEqual(acknowledged.get(row.id))
  for (const { id } of stacks) {
    const ofStack = rows.filter(({ stack_id }) => stack_id === id)
    const numbers = ofStack.map(({ sequence_id }) => Number(sequence_id))
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(ofStack.at(-1)?.id).toBe(ofStack.at(-1)?.head)
  }
  // Whoever saw a number had seen every smaller one of that stack: numbers became visible in their order.
  for (const { stack_id, numbers, highest } of looks) {
    const below = rows.filter((row) => row.stack_id === stack_id && Number(row.sequence_id) <= Number(highest))
    expect(below.length).toBe(Number(numbers))
  }
  expect(looks.length).toBeGreaterThan(stacks.length)
  await client.end()
})
