// Templates and schemas that try to take the broker's time, memory or insides. Each ends in a refusal; the worker's limits are the last
// resort, and a worker that they end is replaced while other jobs are answered.
import { afterAll, expect, test } from 'vitest'
import { doTemplateJob, type Rendering } from './rules/template-job.ts'
import { createTemplateWork } from './template-work.ts'

// The limits of the language end these templates on a machine of any speed, before the worker's time limit does.
const workers = createTemplateWork({ timeoutMs: 60_000 })
afterAll(() => workers.close())

const toRendering = (source: string, parameters: object = {}, schema = '{}'): Rendering => ({
  source,
  schema,
  parameters: JSON.stringify(parameters),
  renderedAt: '2026-01-02T03:04:05.678Z',
  outputBytesMax: 8 * 1024 * 1024,
})

const nestedLoops = (depth: number): string => `${'{% for x in range(end=1000) %}'.repeat(depth)}${'{% endfor %}'.repeat(depth)}`

const hostile: readonly (readonly [string, string])[] = [
  ['a loop of 10^15 rounds', nestedLoops(5)],
  ['a range of 10^15 items', '{{ range(end=1000000000000000) | length }}'],
  ['a range without a step', '{{ range(end=10, step_by=0) }}'],
  ['a macro that calls itself', '{% macro m() %}{{ self::m() }}{% endmacro %}{{ self::m() }}'],
  [
    'macros that call each other',
    '{% macro a() %}{{ self::b() }}{% endmacro %}{% macro b() %}{{ self::a() }}{% endmacro %}{{ self::a() }}',
  ],
  [
    'a macro that calls itself twice',
    '{% macro m(n) %}{% if n > 0 %}{{ self::m(n=n-1) }}{{ self::m(n=n-1) }}{% endif %}x{% endmacro %}{{ self::m(n=60) }}',
  ],
  ['a text that doubles', `{% set x = "aaaaaaaa" %}${'{% set x = x ~ x %}'.repeat(60)}{{ x }}`],
  ['a text that doubles through replace', `{% set x = "aa" %}${'{% set x = x | replace(from="a", to="aaaa") %}'.repeat(40)}{{ x }}`],
  [
    'an output of 10 MB',
    '{% for x in range(end=10000) %}{{ "0123456789" | indent(prefix="          ", first=true) }}{% for y in range(end=50) %}0123456789012345678{% endfor %}{% endfor %}',
  ],
  [
    'many large variables',
    Array.from({ length: 200 }, (_, n) => `{% set v${n} = "${'é'.repeat(1000)}" | replace(from="é", to="${'é'.repeat(1000)}") %}`).join(''),
  ],
  [
    'lists that grow',
    `{% set x = "a" | replace(from="a", to="${'b'.repeat(5000)}") %}{% for a in range(end=1000) %}{{ x | split(pat="") | length }}{% endfor %}`,
  ],
  ['a constructor', '{{ a.constructor }}'],
  ['a prototype', '{{ a["__proto__"] }}'],
  ['a prototype of a text', '{{ "x" | get(key="__proto__") }}'],
  ['a method', '{{ list.push }}'],
  ['a constructor as a filter', '{{ a | constructor }}'],
  ['a constructor as a function', '{{ constructor(value=1) }}'],
  ['a prototype as a test', '{{ a is hasOwnProperty }}'],
  ['the process', '{{ process.env.PATH }}'],
  ['the global object', '{{ globalThis }}'],
  ['the context', '{{ __tera_context }}'],
  ['the environment', '{{ get_env(name="PATH") }}'],
  ['another file', '{% include "/etc/passwd" %}'],
  ['a NUL character', '{{ nul }}'],
  ['a throw', '{{ throw(message="x") }}'],
]
const parameters = { a: { b: 1 }, list: [1, 2], nul: 'a\0b' }

test.each(hostile)('%s ends in template_render_failed', (_, source) => {
  expect(doTemplateJob({ do: 'check', source, schema: '{}' })).toEqual({ is: 'accepted' })
  expect(doTemplateJob({ do: 'render', ...toRendering(source, parameters) })).toMatchObject({
    is: 'refused',
    code: 'template_render_failed',
  })
})

test.each<[string, string]>([
  ['parentheses', `{{ ${'('.repeat(5000)}1${')'.repeat(5000)} }}`],
  ['tags', `${'{% if a %}'.repeat(5000)}${'{% endif %}'.repeat(5000)}`],
  ['indexes', `{{ a${'[a'.repeat(5000)}${']'.repeat(5000)} }}`],
  ['arguments', `{{ a${' | f(x=a'.repeat(5000)}${')'.repeat(5000)} }}`],
])('%s that are nested too deep are a syntax error', (_, source) => {
  expect(doTemplateJob({ do: 'check', source, schema: '{}' })).toMatchObject({ is: 'refused', code: 'invalid_template_syntax' })
})

test.each<[string, string]>([
  ['a remote reference', '{"$ref":"https://example.com/schema.json"}'],
  ['a reference to a file', '{"properties":{"a":{"$ref":"file:///etc/passwd"}}}'],
  ['a lookahead', '{"properties":{"a":{"pattern":"(?=a)b"}}}'],
  ['a back reference', '{"patternProperties":{"(a)\\\\1":{}}}'],
  ['a list', '[]'],
  ['an unknown type', '{"type":"banana"}'],
  ['no JSON', 'nope'],
  ['deep nesting', `${'{"not":'.repeat(100)}{}${'}'.repeat(100)}`],
  ['65 KiB', JSON.stringify({ description: 'x'.repeat(65 * 1024) })],
])('a parameter schema with %s is refused', (_, schema) => {
  expect(doTemplateJob({ do: 'check', source: 'a: 1', schema })).toMatchObject({ is: 'refused', code: 'invalid_parameters_schema' })
})

test.each<[string, string]>([
  ['draft 4', '{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":1,"exclusiveMinimum":true}}}'],
  ['draft 6', '{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"a":{"exclusiveMinimum":1}}}'],
  ['draft 7', '{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"exclusiveMinimum":1}}}'],
  ['draft 2019-09', '{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"exclusiveMinimum":1}}}'],
  ['draft 2020-12', '{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"exclusiveMinimum":1}}}'],
  ['no draft', '{"properties":{"a":{"exclusiveMinimum":1}}}'],
  ['a local reference', '{"properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"exclusiveMinimum":1}}}'],
])('parameters are checked against a schema of %s', (_, schema) => {
  expect(doTemplateJob({ do: 'render', ...toRendering('a: {{ a }}', { a: 2 }, schema) })).toEqual({ is: 'rendered', text: 'a: 2' })
  const refused = doTemplateJob({ do: 'render', ...toRendering('a: {{ a }}', { a: 1 }, schema) })
  expect(refused).toMatchObject({
    is: 'refused',
    code: 'invalid_parameters',
    details: { validation_errors: [expect.stringContaining('/a')] },
  })
})

const placeIdentifier = (key: string, id: unknown): object[] => [
  { [key]: id },
  { properties: { a: { [key]: id, type: 'integer' } } },
  { definitions: { a: { [key]: id } }, properties: { a: { $ref: '#/definitions/a' } } },
]

test.each([
  ['http://json-schema.org/draft-04/schema#', 'id'],
  ['http://json-schema.org/draft-07/schema#', '$id'],
  ['https://json-schema.org/draft/2019-09/schema', '$id'],
  ['https://json-schema.org/draft/2020-12/schema', '$id'],
])('identifiers in a schema of %s have no effect on later schemas', ($schema, key) => {
  const check = (schema: object) => doTemplateJob({ do: 'check', source: 'a: 1', schema: JSON.stringify({ $schema, ...schema }) })
  for (const schema of [$schema, 'https://example.com/a', 5].flatMap((id) => placeIdentifier(key, id))) {
    const outcome = check(schema)
    if (outcome.is === 'refused') expect(outcome.code).toBe('invalid_parameters_schema')
    // Another schema with an identifier that stayed behind would be ambiguous.
    expect(check({ ...schema, title: 'other' })).toEqual(outcome)
    expect(check({ type: 'object' })).toEqual({ is: 'accepted' })
  }
  expect(check({ properties: { id: { type: 'string' }, $id: { type: 'string' } } })).toEqual({ is: 'accepted' })
})

test('parameters are checked against a schema that has an identifier', () => {
  const schema = '{"$id":"https://example.com/a","properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":"integer"}}}'
  const render = (a: unknown) => doTemplateJob({ do: 'render', ...toRendering('a: {{ a }}', { a }, schema) })
  expect([render(1), render('x'), render(2)]).toMatchObject([{ is: 'rendered' }, { code: 'invalid_parameters' }, { is: 'rendered' }])
})

test('true accepts all parameters and false none, every time', () => {
  const render = (schema: string) => doTemplateJob({ do: 'render', ...toRendering('a: 1', {}, schema) }).is
  expect(['true', 'false', 'true', 'false'].map(render)).toEqual(['rendered', 'refused', 'rendered', 'refused'])
})

test.each(['{"$async":true}', '{"$async":false}'])('%s is refused', (schema) => {
  expect(doTemplateJob({ do: 'check', source: 'a: 1', schema })).toMatchObject({ is: 'refused', code: 'invalid_parameters_schema' })
})

test('a pattern with exponential backtracking is matched in linear time', () => {
  const schema = JSON.stringify({ properties: { a: { pattern: '^(a+)+$' } } })
  const outcome = doTemplateJob({ do: 'render', ...toRendering('a: 1', { a: `${'a'.repeat(20_000)}!` }, schema) })
  expect(outcome).toMatchObject({ is: 'refused', code: 'invalid_parameters' })
})

test('violations name paths and rules, never values', () => {
  const schema = '{"type":"object","required":["n"],"properties":{"a":{"type":"integer"},"b":{"enum":["x"]}},"additionalProperties":false}'
  const outcome = doTemplateJob({ do: 'render', ...toRendering('a: 1', { a: 'S3CR3T', b: 'S3CR3T' }, schema) })
  expect(JSON.stringify(outcome)).not.toContain('S3CR3T')
  expect(outcome).toMatchObject({ details: { validation_errors: expect.arrayContaining(['/a: must be integer']) } })
})

test('a schema that refers to itself without end is refused', () => {
  const schema = '{"allOf":[{"$ref":"#"}]}'
  expect(doTemplateJob({ do: 'render', ...toRendering('a: 1', {}, schema) })).toMatchObject({ is: 'refused' })
})

test('a worker answers other templates while hostile ones end', async () => {
  const attempts = hostile
    .slice(0, 6)
    .map(([, source]) => workers.render(toRendering(source, parameters)).catch((error: { code: string }) => error.code))
  const others = Array.from({ length: 20 }, (_, n) => workers.render(toRendering('n: {{ n }}', { n })))
  expect(await Promise.all(others)).toEqual(Array.from({ length: 20 }, (_, n) => `n: ${n}`))
  expect(new Set(await Promise.all(attempts))).toEqual(new Set(['template_render_failed']))
})

test('a template that needs more than its time ends its worker, and the next one is rendered', async () => {
  // Each round scans a long text, so that the time limit comes before the limit on steps. A pattern that requires a letter would be fast:
  // the engine searches for the letter first.
  const source = '{% for x in range(end=100000) %}{% if text is matching("(x+x+)+[^x]") %}{% endif %}{% endfor %}'
  const limited = createTemplateWork({ timeoutMs: 1_000 })
  const slow = limited.render(toRendering(source, { text: 'x'.repeat(200_000) }))
  await expect(slow).rejects.toMatchObject({ code: 'template_render_failed', details: { limit: 'template_seconds' } })
  expect(await limited.render(toRendering('a: {{ a }}', { a: 1 }))).toBe('a: 1')
  await limited.close()
})

test('equal parameters give equal output', async () => {
  const rendering = toRendering('{{ now() }} {{ now(timestamp=true) }} {{ a | json_encode }}', { a: { z: 1, b: [2.0, 'x'] } })
  const [first, second] = [await workers.render(rendering), await workers.render(rendering)]
  expect(first).toBe('2026-01-02T03:04:05.678+00:00 1767323045 {"b":[2,"x"],"z":1}')
  expect(second).toBe(first)
})
