// Templates through a real broker: versions, labels, access, and deployment objects with their provenance.
import { ApiError } from '@brokkr/contract/errors.ts'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let owner: TestGenerator
let other: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  owner = await createGenerator(broker)
  other = await createGenerator(broker)
  return () => broker.kill()
}, 120_000)

const source = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  size: "{{ size }}"\n'
const schema = '{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}'
const newBody = (name = unique('t')) => ({ name, template_content: source, parameters_schema: schema })
const createStack = (labels: string[] = []) =>
  owner.client.createStack({ body: { name: unique('s'), generator_id: owner.generator.id, labels } })
const codeOf = (work: Promise<unknown>) => work.then(() => 'ok').catch((error: unknown) => (error instanceof ApiError ? error.code : error))

async function query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
  const client = new pg.Client({ connectionString: broker.databaseUrl })
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}

test('a known name creates the next version, and a deleted version is not used again', async () => {
  const body = newBody()
  const first = await owner.client.createTemplate({ body })
  const second = await owner.client.createTemplate({ body: { ...body, description: 'second' } })
  await owner.client.deleteTemplate({ params: { id: second.id } })
  const third = await owner.client.updateTemplate({ params: { id: first.id }, body })
  expect([first.version, second.version, third.version, third.generator_id]).toEqual([1, 2, 3, owner.generator.id])
  const listed = await owner.client.listTemplates({ query: { name: body.name } })
  expect(listed.map(({ version }) => version)).toEqual([1, 3])
  const withDeleted = await owner.client.listTemplates({ query: { name: body.name, include_deleted: true } })
  expect(withDeleted.map(({ version }) => version)).toEqual([1, 2, 3])
})

test('versions that are created at the same time get different numbers', async () => {
  const body = newBody()
  const created = await Promise.all(Array.from({ length: 8 }, () => owner.client.createTemplate({ body })))
  expect(created.map(({ version }) => version).toSorted((one, next) => one - next)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
})

test.each<[string, number]>([
  ['{"$id":"http://json-schema.org/draft-07/schema#"}', 201],
  ['{"$id":5}', 400],
  ['{"$id":"https://example.com/a"}', 201],
  ['true', 201],
  ['{}', 201],
])('a template with the schema %s is answered with %i', async (parameters_schema, status) => {
  const answer = await ask(broker, 'POST /templates', { pak: owner.pak, body: { ...newBody(), parameters_schema } })
  expect([answer.status, answer.code]).toEqual([status, status === 201 ? null : 'invalid_parameters_schema'])
})

test('a list is read page by page in its order, system templates first', async () => {
  await broker.admin.createTemplate({ body: newBody() })
  const all = await owner.client.listTemplates({})
  const { header } = await ask(broker, 'GET /templates?limit=2', { pak: owner.pak })
  const rest = await owner.client.listTemplates({ query: { cursor: header('x-next-cursor') ?? '' } })
  expect(all[0]?.generator_id).toBeNull()
  expect(rest.map(({ id }) => id)).toEqual(all.slice(2).map(({ id }) => id))
})

test('a new version has the labels and annotations of the version it was made from', async () => {
  const { id } = await owner.client.createTemplate({ body: newBody() })
  await owner.client.templatesAddLabel({ params: { id }, body: 'tier:web' })
  await owner.client.templatesAddAnnotation({ params: { id }, body: { key: 'team', value: 'red' } })
  const next = await owner.client.updateTemplate({ params: { id }, body: { template_content: source, parameters_schema: schema } })
  const params = { id: next.id }
  expect((await owner.client.templatesListLabels({ params })).map(({ label }) => label)).toEqual(['tier:web'])
  expect((await owner.client.templatesListAnnotations({ params })).map(({ key, value }) => [key, value])).toEqual([['team', 'red']])
})

test('a generator reads system templates and changes only its own', async () => {
  const system = await broker.admin.createTemplate({ body: newBody() })
  const own = await owner.client.createTemplate({ body: newBody() })
  expect((await other.client.getTemplate({ params: { id: system.id } })).generator_id).toBeNull()
  expect(await codeOf(other.client.getTemplate({ params: { id: own.id } }))).toBe('template_not_accessible')
  expect(await codeOf(owner.client.deleteTemplate({ params: { id: system.id } }))).toBe('template_not_owned')
  const stack = await other.client.createStack({ body: { name: unique('s'), generator_id: other.generator.id } })
  const body = { template_id: own.id, parameters: { name: 'n', size: 1 } }
  expect(await codeOf(other.client.instantiateTemplate({ params: { stack_id: stack.id }, body }))).toBe('template_not_accessible')
})

test('a rendered text becomes a deployment object with provenance, event and audit entry', async () => {
  const template = await owner.client.createTemplate({ body: newBody() })
  const stack = await createStack()
  const { status, text } = await ask(broker, `POST /stacks/${stack.id}/deployment-objects/from-template`, {
    pak: owner.pak,
    text: `{"template_id":"${template.id}","parameters":{"name":"n","size":9007199254740993,"half":2.0}}`,
  })
  const object = JSON.parse(text) as { id: string; yaml_content: string; sequence_id: number }
  expect([status, object.yaml_content]).toEqual([201, source.replace('{{ name }}', 'n').replace('{{ size }}', '9007199254740993')])
  const [provenance] = await query<{ template_id: string; template_version: number; sealed: string }>(
    `select template_id, template_version, encode(parameters_sealed, 'escape') as sealed from rendered_deployment_objects where deployment_object_id = $1`,
    [object.id],
  )
  expect(provenance).toMatchObject({ template_id: template.id, template_version: 1 })
  expect(provenance?.sealed).not.toContain('9007199254740993')
  const { logs } = await broker.admin.listAuditLogs({ query: { action: 'deployment.created', resource_id: object.id } })
  expect(logs[0]?.details).toMatchObject({ stack_id: stack.id, template_id: template.id, template_version: 1 })
})

test('the provenance of a rendered object is shown, also of its rollback, with masked parameters for readers', async () => {
  const template = await owner.client.createTemplate({ body: newBody() })
  const stack = await createStack()
  const parameters = { name: 'n', size: 7 }
  const object = await owner.client.instantiateTemplate({ params: { stack_id: stack.id }, body: { template_id: template.id, parameters } })
  const expected = { template_id: template.id, template_version: 1, parameters, created_by: { kind: 'generator', id: owner.generator.id } }
  expect(await owner.client.getProvenance({ params: { id: object.id } })).toMatchObject({ ...expected, rollback_of: null })
  const copy = await owner.client.rollbackStack({ params: { id: stack.id }, body: { deployment_object_id: object.id } })
  expect(await owner.client.getProvenance({ params: { id: copy.id } })).toMatchObject({ ...expected, rollback_of: object.id })
  const reader = await broker.admin.createAdminPak({ body: { name: unique('r'), readonly: true } })
  const shown = await broker.clientOf(reader.pak).getProvenance({ params: { id: object.id } })
  expect(shown.parameters).toEqual({ name: '***', size: '***' })
  const plain = await owner.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: object.yaml_content } })
  expect(await codeOf(owner.client.getProvenance({ params: { id: plain.id } }))).toBe('not_found')
})

test('a stack without the labels and annotations of a template cannot use it', async () => {
  const { id } = await owner.client.createTemplate({ body: newBody() })
  await owner.client.templatesAddLabel({ params: { id }, body: 'tier:web' })
  await owner.client.templatesAddAnnotation({ params: { id }, body: { key: 'team', value: 'red' } })
  const [stack, labeled] = [await createStack(), await createStack(['tier:web'])]
  const body = { template_id: id, parameters: { name: 'n', size: 1 } }
  const refused = await ask(broker, `POST /stacks/${stack.id}/deployment-objects/from-template`, { pak: owner.pak, body })
  expect(JSON.parse(refused.text)).toMatchObject({
    code: 'template_stack_mismatch',
    details: { missing_labels: ['tier:web'], missing_annotations: [['team', 'red']] },
  })
  await owner.client.stacksAddAnnotation({ params: { id: labeled.id }, body: { stack_id: labeled.id, key: 'team', value: 'red' } })
  expect(await codeOf(owner.client.instantiateTemplate({ params: { stack_id: labeled.id }, body }))).toBe('ok')
})

test.each<[string, unknown, string]>([
  ['a required parameter is missing', { size: 1 }, 'invalid_parameters'],
  ['a parameter has the wrong type', { name: 5, size: 1 }, 'invalid_parameters'],
  ['the parameters are a text', 'text', 'invalid_parameters'],
  ['the parameters are null', null, 'invalid_parameters'],
  ['the parameters are too large', { name: 'n'.repeat(300_000), size: 1 }, 'invalid_parameters'],
  ['a name is not defined', { name: 'n' }, 'template_render_failed'],
  ['the text is no YAML', { name: '[', size: 1 }, 'invalid_deployment_object'],
])('instantiating fails and stores nothing when %s', async (_, parameters, code) => {
  const template = await owner.client.createTemplate({ body: newBody() })
  const stack = await createStack()
  const call = `POST /stacks/${stack.id}/deployment-objects/from-template` as const
  const answer = await ask(broker, call, { pak: owner.pak, body: { template_id: template.id, parameters } })
  expect([answer.status, answer.code]).toEqual([400, code])
  expect(await owner.client.listDeploymentObjects({ params: { id: stack.id } })).toEqual([])
  expect(await query('select from rendered_deployment_objects where template_id = $1', [template.id])).toEqual([])
})

test('other requests are answered while a hostile template is rendered', async () => {
  const hostile = `${'{% for x in range(end=1000) %}'.repeat(4)}${'{% endfor %}'.repeat(4)}`
  const template = await owner.client.createTemplate({ body: { name: unique('t'), template_content: hostile, parameters_schema: '{}' } })
  const stack = await createStack()
  const body = { template_id: template.id, parameters: {} }
  const renderings = Array.from({ length: 4 }, () => codeOf(owner.client.instantiateTemplate({ params: { stack_id: stack.id }, body })))
  const others = await Promise.all(Array.from({ length: 20 }, () => owner.client.getStack({ params: { id: stack.id } })))
  expect(others.every(({ id }) => id === stack.id)).toBe(true)
  expect(await Promise.all(renderings)).toEqual(Array.from({ length: 4 }, () => 'template_render_failed'))
})

test.each<[string, object, number, string]>([
  ['an empty name', { name: ' ' }, 422, 'validation_failed'],
  ['empty content', { template_content: ' \n' }, 400, 'invalid_template_syntax'],
  ['a syntax error', { template_content: '{% if %}' }, 400, 'invalid_template_syntax'],
  ['content above 2 MiB', { template_content: 'x'.repeat(2 * 1024 * 1024 + 1) }, 400, 'invalid_template_syntax'],
  ['a remote reference', { parameters_schema: '{"$ref":"http://example.com/s.json"}' }, 400, 'invalid_parameters_schema'],
  ['a long description', { description: 'd'.repeat(4097) }, 422, 'validation_failed'],
])('a template with %s is refused', async (_, change, status, code) => {
  const answer = await ask(broker, 'POST /templates', { pak: owner.pak, body: { ...newBody(), ...change } })
  expect([answer.status, answer.code]).toEqual([status, code])
})

test('deleting a generator deletes its templates', async () => {
  const doomed = await createGenerator(broker)
  const { id } = await doomed.client.createTemplate({ body: newBody() })
  await broker.admin.deleteGenerator({ params: { id: doomed.generator.id } })
  expect(await codeOf(broker.admin.getTemplate({ params: { id } }))).toBe('template_not_found')
})

test('the sources of templates are stored sealed', async () => {
  const secret = unique('S3CR3T')
  const { id } = await owner.client.createTemplate({ body: { ...newBody(), template_content: `a: ${secret}\n` } })
  const [row] = await query<{ row: string }>(
    `select to_jsonb(t)::text || encode(template_sealed, 'escape') as row from stack_templates t where id = $1`,
    [id],
  )
  expect(row?.row).not.toContain(secret)
  expect((await owner.client.getTemplate({ params: { id } })).template_content).toContain(secret)
})
