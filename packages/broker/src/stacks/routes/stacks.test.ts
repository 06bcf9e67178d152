// Stacks and their revisions over HTTP, against a real broker.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../../http/server/http-call.fixture.ts'

const nowhere = '00000000-0000-4000-8000-00000000dead'
let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  return () => broker.kill()
})
const makeStack = (body: { labels?: string[]; annotations?: Record<string, string> } = {}) =>
  tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, ...body } })
const submit = (id: Awaited<ReturnType<typeof makeStack>>['id'], yaml_content: string, is_deletion_marker = false) =>
  tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content, is_deletion_marker } })
const config = (name: string, value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {v: "${value}"}\n`

test('a stack update accepts all or some fields, and a new name reaches its agents', async () => {
  const label = unique('l')
  const stack = await makeStack({ labels: [label] })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak })
  await stream.frame('snapshot_end')
  const update = async (body: unknown) => (await ask(broker, `PUT /stacks/${stack.id}`, { body, pak: tenant.pak })).json
  const described = { ...stack, description: 'why', unknown: 1 }
  expect(await update(described)).toMatchObject({ description: 'why', name: stack.name, drift: 'heal' })
  const before = await tenant.client.getStack({ params: { id: stack.id } })
  for (const body of [{}, { name: null, description: null, id: null }, before]) expect(await update(body)).toEqual(before)
  const name = unique('renamed')
  expect(await update({ name: ` ${name} `, drift: 'report' })).toMatchObject({ name, drift: 'report', description: 'why' })
  const put = await stream.frame('put', (frame) => frame.stack_name === name)
  expect(put).toMatchObject({ stack_id: stack.id, drift: 'report', rev: 1 })
  stream.close()
})

test('an annotation on a stack targets agents with the same pair until it is removed', async () => {
  const key = unique('k')
  const name = unique('agent')
  const { agent } = await broker.admin.createAgent({
    body: { name, cluster_name: name, generator_ids: [tenant.generator.id], annotations: { [key]: 'v' } },
  })
  const stack = await makeStack()
  const params = { id: stack.id }
  const add = (value: string) => tenant.client.stacksAddAnnotation({ params, body: { stack_id: stack.id, key, value } })
  expect(await add('v')).toMatchObject({ stack_id: stack.id, key, value: 'v' })
  expect(await broker.admin.listTargets({ params: { id: agent.id }, query: { reason: 'annotation' } })).toMatchObject([
    { stack_id: stack.id },
  ])
  await expect(add('w')).rejects.toMatchObject({ code: 'unique_violation', details: { constraint: 'unique_stack_annotation' } })
  await tenant.client.stacksAddAnnotation({ params, body: { stack_id: stack.id, key: 'A', value: 'x' } })
  expect((await tenant.client.stacksListAnnotations({ params })).map((row) => row.key)).toEqual(['A', key])
  await tenant.client.stacksRemoveAnnotation({ params: { ...params, key } })
  expect(await broker.admin.listTargets({ params: { id: agent.id }, query: { reason: 'all' } })).toEqual([])
  await expect(tenant.client.stacksRemoveAnnotation({ params: { ...params, key } })).rejects.toMatchObject({
    code: 'stack_annotation_not_found',
  })
})

test('list filters are combined, and pak_id is accepted from admins only', async () => {
  const [label, key] = [unique('l'), unique('k')]
  const both = (await makeStack({ labels: [label, 'b'], annotations: { [key]: 'v' } })).id
  const first = (await makeStack({ labels: [label] })).id
  const foreign = await createGenerator(broker)
  const find = async (query: NonNullable<Parameters<typeof broker.admin.listStacks>[0]['query']>, client = broker.admin) =>
    (await client.listStacks({ query })).map((stack) => stack.id)
  expect((await find({ label: [label] })).toSorted()).toEqual([both, first].toSorted())
  expect(await find({ label: [label, 'b'], annotation: [`${key}=v`] })).toEqual([both])
  expect(await find({ label: [label], pak_id: foreign.generator.id })).toEqual([])
  expect((await find({ label: [label], pak_id: foreign.generator.id }, tenant.client)).length).toBe(2)
  expect(await find({ label: [label] }, foreign.client)).toEqual([])
})

test('a rollback submits a new deployment object with the old manifest and its origin', async () => {
  const stack = await makeStack()
  const [first, second] = [await submit(stack.id, config('a', '1')), await submit(stack.id, config('a', '2'))]
  const marker = await submit(stack.id, '', true)
  const back = (body: Parameters<typeof tenant.client.rollbackStack>[0]['body']) =>
    tenant.client.rollbackStack({ params: { id: stack.id }, body })
  expect(await back({ sequence_id: first.sequence_id, expected_sequence_id: marker.sequence_id, reason: 'it was better' })).toMatchObject({
    sequence_id: marker.sequence_id + 1,
    rollback_of: first.id,
    yaml_content: first.yaml_content,
    yaml_checksum: first.yaml_checksum,
    is_deletion_marker: false,
  })
  expect((await back({ deployment_object_id: second.id })).rollback_of).toBe(second.id)
  expect((await tenant.client.listDeploymentObjects({ params: { id: stack.id } })).length).toBe(5)
  await expect(back({ sequence_id: first.sequence_id, expected_sequence_id: 1 })).rejects.toMatchObject({ code: 'stack_moved' })
  await expect(back({ sequence_id: marker.sequence_id })).rejects.toMatchObject({ code: 'rollback_to_marker' })
  await expect(back({ sequence_id: 99 })).rejects.toMatchObject({ code: 'deployment_object_not_found' })
  const foreign = await submit((await makeStack()).id, config('b', '1'))
  await expect(back({ deployment_object_id: foreign.id })).rejects.toMatchObject({ code: 'deployment_object_not_found' })
  await expect(back({ deployment_object_id: nowhere })).rejects.toMatchObject({ code: 'deployment_object_not_found' })
  expect((await tenant.client.listDeploymentObjects({ params: { id: stack.id } })).length).toBe(5)
})

test('a dry run returns the changes and affected agents and writes no row', async () => {
  const label = unique('l')
  const stack = await makeStack({ labels: [label] })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const head = await submit(stack.id, [config('same', '1'), config('other', '1'), config('gone', '1')].join('---\n'))
  const dry = (text: string, query = '') =>
    ask(broker, `POST /stacks/${stack.id}/deployment-objects?dry_run=true${query}`, {
      pak: tenant.pak,
      text,
      headers: { 'content-type': 'application/yaml' },
    })
  const shown = await dry([config('same', '1'), config('other', '2'), config('new', '1'), 'kind: Odd\n'].join('---\n'))
  expect(shown.status).toBe(200)
  const object = (name: string, change: string) => ({ api_version: 'v1', kind: 'ConfigMap', namespace: null, name, change })
  expect(shown.json).toMatchObject({
    valid: true,
    objects: [
      object('same', 'unchanged'),
      object('other', 'changed'),
      object('new', 'added'),
      { kind: 'Odd', change: 'added' },
      object('gone', 'removed'),
    ],
    agents: [{ agent_id: agent.agent.id, name: agent.agent.name, reasons: ['label'] }],
  })
  expect((shown.json as { warnings: string[] }).warnings.length).toBe(2)
  const marker = (await dry('', '&deletion_marker=true')).json as { objects: { change: string }[] }
  expect(marker.objects.map(({ change }) => change)).toEqual(['removed', 'removed', 'removed'])
  expect((await dry('a: [')).code).toBe('invalid_deployment_object')
  expect((await dry(config('x', '1'), '&expected_sequence_id=7')).code).toBe('stack_moved')
  expect((await tenant.client.listDeploymentObjects({ params: { id: stack.id } })).map(({ id }) => id)).toEqual([head.id])
})

test('a document that is not an object gets a warning, and an unreadable one is refused', async () => {
  const stack = await makeStack()
  expect((await submit(stack.id, 'just text')).warnings).toHaveLength(1)
  await expect(submit(stack.id, 'just text\n---\na: [')).rejects.toMatchObject({ code: 'invalid_deployment_object', details: { line: 4 } })
})

test.each<[string, string, unknown, number, string]>([
  ['PUT', '', { id: nowhere }, 400, 'stack_id_mismatch'],
  ['PUT', '', { generator_id: nowhere }, 422, 'immutable_field'],
  ['PUT', '', { deleted_at: '2026-01-02T03:04:05Z' }, 422, 'immutable_field'],
  ['PUT', '', { name: '' }, 422, 'validation_failed'],
  ['PUT', '', { description: 'x'.repeat(4097) }, 422, 'validation_failed'],
  ['PUT', '', { drift: 'sometimes' }, 422, 'invalid_request_body'],
  ['PUT', '', 'text', 422, 'invalid_request_body'],
  ['POST', '/annotations', { stack_id: nowhere, key: 'k', value: 'v' }, 400, 'stack_id_mismatch'],
  ['POST', '/annotations', { stack_id: 'ID', key: 'a b', value: 'v' }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { stack_id: 'ID', key: 'k', value: '' }, 400, 'invalid_annotation'],
  ['POST', '/rollback', {}, 422, 'invalid_request_body'],
  ['POST', '/rollback', { sequence_id: 1, deployment_object_id: nowhere }, 422, 'invalid_request_body'],
  ['POST', '/rollback', { sequence_id: 1.5 }, 422, 'invalid_request_body'],
  ['POST', '/rollback', { sequence_id: 9_007_199_254_740_991 }, 404, 'deployment_object_not_found'],
  ['POST', '/rollback', { sequence_id: 1e19 }, 422, 'validation_failed'],
  ['POST', '/rollback', { sequence_id: 1, reason: 'x'.repeat(1025) }, 422, 'validation_failed'],
])('%s …%s %j → %i %s', async (method, tail, body, status, code) => {
  const stack = await makeStack()
  const sent = JSON.parse(JSON.stringify(body).replaceAll('"ID"', `"${stack.id}"`)) as unknown
  const answer = await ask(broker, `${method} /stacks/${stack.id}${tail}`, { body: sent })
  expect([answer.status, answer.code]).toEqual([status, code])
})
