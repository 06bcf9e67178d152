// Manifests made to hurt: each cap holds, is named, and tells nothing of the text; meanwhile others are served.
// long: manifests at the limits of size
import { gzipSync } from 'node:zlib'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
let stackId: string
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  tenant = await createGenerator(broker)
  stackId = (await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })).id
  return () => broker.kill()
})
const canary = `S3CR3T-${unique('c')}`
const mib = 1024 * 1024
const submit = (text: string, form: 'yaml' | 'json') =>
  ask(broker, `POST /stacks/${stackId}/deployment-objects`, {
    pak: tenant.pak,
    text: form === 'yaml' ? text : JSON.stringify({ yaml_content: text }),
    headers: { 'content-type': form === 'yaml' ? 'application/yaml' : 'application/json' },
  })

const document = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${canary}}\n`
const lists = (depth: number) => `a: ${'['.repeat(depth)}${canary}${']'.repeat(depth)}\n`
/** Ten anchors, each ten times the one before: a billion in the end. */
const laughs = `a0: &a0 [${canary}]\n${Array.from({ length: 9 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n}, `.repeat(10)}]`).join('\n')}\n`
const hostile: [string, string, number, unknown][] = [
  ['more than 8 MiB', `a: "${canary}${'x'.repeat(8 * mib)}"\n`, 413, 'limits.object_body_bytes'],
  ['a document of more than 3 MiB', `a: "${canary}${'x'.repeat(3 * mib)}"\n`, 400, 3 * mib],
  ['more than 2,000 documents', Array.from({ length: 2001 }, () => document).join('---\n'), 400, 2_000],
  [
    'more than 2,000 items in lists',
    `apiVersion: v1\nkind: List\nitems: [${'{kind: X, apiVersion: v1}, '.repeat(2001)}]\n# ${canary}`,
    400,
    2_000,
  ],
  ['more than 200,000 values', `a: [${canary}, ${'1, '.repeat(200_001)}]\n`, 400, 200_000],
  ['nesting beyond 64', lists(65), 400, 64],
  ['nesting beyond all measure', lists(500_000), 400, 64],
  ['nested maps in blocks', `${Array.from({ length: 70 }, (_, n) => `${' '.repeat(n)}k${n}:`).join('\n')} ${canary}\n`, 400, 64],
  ['more than 100 uses of an alias', `a: &a ${canary}\nb: [${'*a, '.repeat(101)}]\n`, 400, 100],
  ['a billion laughs', laughs, 400, expect.any(Number)],
  ['an alias of itself', `a: &a [${canary}, *a]\n`, 400, undefined],
  ['a tag of a programming language', `a: !!js/function "${canary}"\n`, 400, undefined],
  ['a tag of a class', `a: !!python/object/apply:os.system ["${canary}"]\n`, 400, undefined],
  ['a key twice', `${canary}: 1\n${canary}: 2\n`, 400, undefined],
  ['a broken text', `a: [${canary}`, 400, undefined],
  ['an unclosed text of megabytes', `a: "${canary}${'\\x41'.repeat(600_000)}`, 400, undefined],
]

test.each(hostile)('[X24] %s is refused by its limit without quoting the manifest', async (_, text, status, limit) => {
  const [yaml, json] = [await submit(text, 'yaml'), await submit(text, 'json')]
  for (const answer of [yaml, json]) {
    expect([answer.status, answer.code]).toEqual([status, status === 413 ? 'payload_too_large' : 'invalid_deployment_object'])
    expect(answer.text).not.toContain(canary)
    expect(answer.text.length).toBeLessThan(2_000)
    expect((answer.json as { details?: { limit?: unknown } }).details?.limit).toEqual(limit)
  }
  expect(broker.text()).not.toContain(canary)
})

test('[X24] a body that inflates to gigabytes is cut at the cap', async () => {
  const bomb = gzipSync(Buffer.alloc(64 * mib, 0x20), { level: 9 })
  const response = await fetch(`${broker.url}/api/v1/stacks/${stackId}/deployment-objects`, {
    method: 'POST',
    headers: { authorization: tenant.pak, 'content-type': 'application/yaml', 'content-encoding': 'gzip' },
    body: bomb,
  })
  expect([bomb.length < mib, response.status]).toEqual([true, 413])
})

test('[X24] others are served while large manifests are read', async () => {
  // As costly as the caps allow: it takes a good part of a second to read, and would keep everybody waiting for as long.
  const heavy = Array.from(
    { length: 1_900 },
    (_, n) =>
      `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n${n}}\ndata: {${Array.from({ length: 90 }, (__, m) => `k${m}: v`).join(', ')}}\n`,
  ).join('---\n')
  const count = 6
  const work = Promise.all(Array.from({ length: count }, () => submit(heavy, 'yaml')))
  const over = new AbortController()
  void work.then(() => over.abort())
  let served = 0
  while (!over.signal.aborted) {
    expect((await fetch(`${broker.url}/healthz`)).status).toBe(200)
    served += 1
  }
  expect((await work).map(({ status }) => status)).toEqual(Array.from({ length: count }, () => 201))
  expect(served).toBeGreaterThan(10 * count)
})
