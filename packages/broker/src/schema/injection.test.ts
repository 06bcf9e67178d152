// Text of strangers is data: two hundred strings that have opened databases before, in every field and filter that takes text. Each is
// refused or comes back word for word, and the schema is what it was.
// long: every place with every hostile text
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type Asked, ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
let agent: TestAgent
let stackId: string
let objectId: string
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { generators: [tenant] })
  stackId = (await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })).id
  await tenant.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: stackId } })
  objectId = (await tenant.client.createDeploymentObject({ params: { id: stackId }, body: { yaml_content: 'a: 1' } })).id
  return () => broker.kill()
}, 120_000)

const payloads = [
  `';drop table stacks;--`,
  `' or '1'='1`,
  `1;select pg_sleep(9)--`,
  `\\'; drop schema public cascade; --`,
  `$$;drop table agents;$$`,
  `$1`,
  `%s`,
  `{"$gt":""}`,
  `*/ union select null --`,
  `";--`,
  `') returning pak_hash --`,
  `a' || pg_read_file('x') || '`,
  `\u02bc or 1=1`,
  `\u2019; drop table x`,
  `%27%20or%201=1`,
  `admin'--`,
  `x'::regclass`,
  `name desc`,
  `1,(select 1)`,
  `E'\\047'`,
  `x' and 1=(select count(*) from admin_role) and 'a'='a`,
  `]]><!--`,
]
const wrappers: ((text: string) => string)[] = [
  (text) => text,
  (text) => text.replaceAll(' ', '/**/'),
  (text) => `x${text}`,
  (text) => `(${text})`,
  (text) => `${text}\\`,
  (text) => `"${text}"`,
  (text) => text.toUpperCase(),
  (text) => `${text};${text}`.slice(0, 64),
  (text) => `\u202e${text}`,
  (text) => `${text.replaceAll("'", "''")}_`,
]
const strings = [...new Set(payloads.flatMap((text) => wrappers.map((wrap) => wrap(text))))]

interface Field {
  readonly what: string
  readonly write: (text: string) => Promise<Asked>
  /** What came back in the field. */
  readonly read: (answer: Asked) => unknown
}
const json = (answer: Asked) => answer.json as Record<string, Record<string, unknown>>
const own = (path: string) => `/stacks/${stackId}${path}` as `/${string}`
const event = (extra: object) =>
  ask(broker, `POST /agents/${agent.agent.id}/events`, {
    pak: agent.pak,
    body: { agent_id: agent.agent.id, deployment_object_id: objectId, event_type: 'E', status: 'S', ...extra },
  })
const fields: Field[] = [
  {
    what: 'name of a generator',
    write: (name) => ask(broker, 'POST /generators', { body: { name } }),
    read: (answer) => json(answer)['generator']?.['name'],
  },
  {
    what: 'description of a stack',
    write: (description) => ask(broker, `PUT ${own('')}`, { pak: tenant.pak, body: { description } }),
    read: (answer) => json(answer)['description'],
  },
  {
    what: 'name of a stack',
    write: (name) => ask(broker, `PUT ${own('')}`, { pak: tenant.pak, body: { name } }),
    read: (answer) => json(answer)['name'],
  },
  {
    what: 'status of an agent',
    write: (status) => ask(broker, `PUT /agents/${agent.agent.id}`, { body: { status: status.slice(0, 50) } }),
    read: (answer) => json(answer)['status'],
  },
  {
    what: 'cluster of an agent',
    write: (cluster_name) => ask(broker, `PUT /agents/${agent.agent.id}`, { body: { cluster_name } }),
    read: (answer) => json(answer)['cluster_name'],
  },
  { what: 'message of an event', write: (message) => event({ message }), read: (answer) => json(answer)['message'] },
  { what: 'type of an event', write: (text) => event({ event_type: text.slice(0, 50) }), read: (answer) => json(answer)['event_type'] },
  { what: 'code of an event', write: (error_code) => event({ error_code }), read: (answer) => json(answer)['error_code'] },
  {
    what: 'name of an admin key',
    write: (name) => ask(broker, 'POST /admin/paks', { body: { name } }),
    read: (answer) => json(answer)['name'],
  },
  {
    what: 'manifest',
    write: (text) =>
      ask(broker, `POST ${own('/deployment-objects')}`, { pak: tenant.pak, body: { yaml_content: JSON.stringify({ a: text }) } }),
    read: (answer) => (JSON.parse(json(answer)['yaml_content'] as unknown as string) as { a: string }).a,
  },
  {
    what: 'reason of a rollback',
    write: (reason) => ask(broker, `POST ${own('/rollback')}`, { pak: tenant.pak, body: { deployment_object_id: objectId, reason } }),
    read: () => undefined,
  },
]
/** Labels and annotations change targets, one after the other: fewer strings are enough. */
const marks: Field[] = [
  {
    what: 'label of a stack',
    write: (label) => ask(broker, `POST ${own('/labels')}`, { pak: tenant.pak, body: label }),
    read: (answer) => json(answer)['label'],
  },
  {
    what: 'annotation of an agent',
    write: (value) =>
      ask(broker, `POST /agents/${agent.agent.id}/annotations`, { body: { agent_id: agent.agent.id, key: unique('k'), value } }),
    read: (answer) => json(answer)['value'],
  },
]

/** Eight at a time. */
async function forEach(texts: readonly string[], work: (text: string) => Promise<void>): Promise<void> {
  const queue = [...texts]
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let text = queue.pop(); text !== undefined; text = queue.pop()) await work(text)
    }),
  )
}

async function schema(): Promise<string> {
  const client = new pg.Client({ connectionString: broker.databaseUrl })
  await client.connect()
  try {
    const { rows } = await client.query(
      `select c.relname, c.relkind::text, a.attname, a.atttypid::regtype::text from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and c.relname !~ '^audit_logs_' order by 1, 2, 3`,
    )
    return JSON.stringify(rows)
  } finally {
    await client.end()
  }
}

test('there are two hundred of them', () => expect(strings.length).toBeGreaterThanOrEqual(200))

test.each([
  ...fields.map((field): [string, Field, readonly string[]] => [field.what, field, strings]),
  ...marks.map((field): [string, Field, readonly string[]] => [field.what, field, strings.slice(0, 40)]),
])('[X26] as %s each is refused or stored word for word, and no table is touched', async (_, field, texts) => {
  const before = await schema()
  await forEach(texts, async (text) => {
    const answer = await field.write(text)
    expect([text, answer.status >= 200 && answer.status < 500]).toEqual([text, true])
    const stored = answer.status < 300 ? field.read(answer) : undefined
    if (stored !== undefined) expect(text.startsWith(stored as string)).toBe(true)
  })
  expect(await schema()).toBe(before)
})

const searches: [string, (text: string) => `${string} /${string}`][] = [
  ['name of stacks', (text) => `GET /stacks?name=${text}`],
  ['label of stacks', (text) => `GET /stacks?label=${text}`],
  ['annotation of agents', (text) => `GET /agents?annotation=${text}`],
  ['status of agents', (text) => `GET /agents?status=${text}`],
  ['cursor of a list', (text) => `GET /generators?limit=1&cursor=${text}`],
  ['type of events', (text) => `GET /agent-events?event_type=${text}`],
  ['action of the audit', (text) => `GET /admin/audit-logs?action=${text}`],
  ['actor of the audit', (text) => `GET /admin/audit-logs?actor_type=${text}`],
  ['mode of the target state', (text) => `GET /agents/${agent.agent.id}/target-state?mode=${text}`],
  ['sort nobody offers', (text) => `GET /stacks?sort=${text}&order_by=${text}`],
  ['agent by name', (text) => `GET /agents/?name=${text}&cluster_name=${text}`],
  ['label in a path', (text) => `DELETE ${own('/labels/')}${text}` as `DELETE /${string}`],
]
test.each(searches)('[X26] as %s each finds nothing or is refused', async (what, callOf) => {
  const before = await schema()
  await forEach(what === 'label in a path' ? strings.slice(0, 40) : strings, async (text) => {
    // With an end that nobody stored above.
    const answer = await ask(broker, callOf(encodeURIComponent(`${text}~`)))
    const isFine = answer.status < 500 && (answer.status !== 204 || what === 'label in a path')
    expect([text, answer.status, isFine]).toEqual([text, answer.status, true])
    if (answer.status === 200 && !/mode|sort/.test(what))
      expect([text, answer.json]).toEqual([text, what.endsWith('audit') ? expect.objectContaining({ logs: [] }) : []])
  })
  expect(await schema()).toBe(before)
})

test('[X26] no injection attempt is logged as a failure', () => {
  expect(broker.lines().filter(({ level }) => level === 'error')).toEqual([])
})
