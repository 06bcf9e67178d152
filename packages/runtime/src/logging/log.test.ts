import { expect, test } from 'vitest'
import { Secret } from '../secret.ts'
import { createLog, type Fields, type Log, type LogLevel, silentLog } from './log.ts'

type Line = Record<string, unknown> & { msg: string; level: string }

function setup(options: { level?: LogLevel; format?: 'json' | 'pretty' } = {}): { log: Log; raw: string[]; lines: () => Line[] } {
  const raw: string[] = []
  const log = createLog({ name: 'broker', ...options, destination: { write: (line) => raw.push(line) } })
  return { log, raw, lines: () => raw.map((line) => JSON.parse(line) as Line) }
}

const canary = 'S3CR3T-4f1e'
const pak = 'brokkr_BRx7Kd2q_4fJ8mPq2VxRt9sWz3bNc6yHk'

/** Casts stand for callers who got around the types. */
const leaks: [string, Fields][] = [
  ['an authorization header', { authorization: `Bearer ${canary}` }],
  ['headers in a record', { request: { Authorization: canary, 'X-Generator-Key': canary, cookie: canary, 'set-cookie': [canary] } }],
  ['all headers at once', { headers: { 'x-any': canary } }],
  ['a cookie in a text', { text: `Cookie: __Host-brokkr_session=${canary}` }],
  ['a database address', { url: `postgres://brokkr:${canary}@db/brokkr` }],
  ['a database address in an error', { error: new Error(`connect postgres://u:${canary}@h/d`) }],
  ['nested causes', { error: new Error('outer', { cause: new Error('middle', { cause: new Error(`Bearer ${canary}`) }) }) }],
  ['several errors in one', { error: new AggregateError([new Error(`https://h/?k=${canary}`)], 'all failed') }],
  ['what a library hangs on its error', { error: Object.assign(new Error('x'), { config: { password: canary }, body: canary }) }],
  ['an error with a secret name', { error: Object.assign(new Error('x'), { name: `Bearer ${canary}` }) }],
  ['a query', { url: `https://h/p?key=${canary}` }],
  ['a fragment', { url: `https://h/login#${canary}` }],
  ['a password by name', { db_password: canary, passphrase: canary, apiKey: canary }],
  ['a PAK by form', { note: `got ${pak.replace('4fJ8', '4fJ8S3CR3T')}` }],
  ['a join token by form', { note: `jt_ab12_${canary}` }],
  ['a webhook secret by form', { note: `whsec_${canary}` }],
  ['a manifest', { yaml_content: `data: ${canary}`, manifest: canary, body: canary, payload: { deep: canary } }],
  ['a Secret', { a: new Secret(canary), b: [new Secret(canary)], c: { d: new Secret(canary) } }],
  ['a Secret where none is allowed', { url: { toString: () => canary } as unknown as string }],
  ['a buffer', { data: Buffer.from(canary) as unknown as string }],
  ['a URL object', { at: new URL(`https://u:${canary}@h/?x=${canary}`) as unknown as string }],
  ['a map', { map: new Map([['k', canary]]) as unknown as Fields }],
  ['a key that is a credential', { counts: { [`postgres://u:${canary}@h`]: 1 } }],
  ['a record deeper than anybody looks', { a: { b: { c: { d: { e: { f: { g: { h: canary } } } } } } } }],
]

test.each(leaks)('[X5] %s does not reach the log at any level, nor through a child', (_what, fields) => {
  const { log, raw } = setup({ level: 'trace' })
  for (const level of ['trace', 'debug', 'info', 'warn', 'error'] as const) log[level]('something happened', fields)
  log.child(fields).info('from a child')
  expect(raw).toHaveLength(6)
  expect(raw.join('')).not.toMatch(/S3CR3T|4f1e/)
})

test.each(leaks)('%s does not reach a terminal either', (_what, fields) => {
  const { log, raw } = setup({ format: 'pretty' })
  log.error('something happened', fields)
  expect(raw.join('')).not.toMatch(/S3CR3T|4f1e/)
})

test('a message that holds a credential loses it', () => {
  const { log, lines } = setup()
  log.info(`refused ${pak}`)
  expect(lines()[0]?.msg).toBe('refused brokkr_***')
})

test('a line has level, time, program, message and its fields', () => {
  const { log, lines } = setup()
  log.info('applied', {
    kind: 'Deployment',
    name: 'api',
    ms: 12,
    changed: true,
    none: null,
    left: undefined,
    big: 10n,
    odd: Number.NaN,
    list: ['a', 1],
  })
  const [line] = lines()
  expect(line).toMatchObject({
    level: 'info',
    program: 'broker',
    msg: 'applied',
    kind: 'Deployment',
    name: 'api',
    ms: 12,
    changed: true,
    none: null,
    big: '10',
    odd: 'NaN',
    list: ['a', 1],
  })
  expect(line?.['time']).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  expect(line).not.toHaveProperty('left')
})

test('a field cannot overwrite the standard fields of a line', () => {
  const { log, raw, lines } = setup()
  log.warn('real', { msg: 'forged', level: 'error', time: 'never', program: 'other', ['__proto__']: 'x' })
  expect(lines()[0]).toMatchObject({ msg: 'real', level: 'warn', program: 'broker', msg_: 'forged', level_: 'error' })
  expect(raw[0]?.match(/"msg":/g)).toHaveLength(1)
})

test('an error shows type, message, code, causes and frames', () => {
  const { log, lines } = setup()
  log.error('failed', { error: Object.assign(new TypeError('outer', { cause: new Error('inner') }), { code: 'E_X' }) })
  expect(lines()[0]?.['error']).toMatchObject({
    type: 'TypeError',
    message: 'outer',
    code: 'E_X',
    cause: { type: 'Error', message: 'inner' },
  })
  expect(lines()[0]).toHaveProperty('error.stack', expect.stringMatching(/^at .*log\.test\.ts/))
})

test('sizes are bounded: text, lists, keys, depth, circles', () => {
  const { log, raw } = setup()
  const circle: Record<string, unknown> = {}
  circle['self'] = circle
  const wide = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`k${index}`, 'v'.repeat(100)]))
  log.info('large', {
    text: 'x y '.repeat(100_000),
    list: Array.from({ length: 10_000 }, () => 'v'.repeat(100)),
    wide,
    circle: circle as Fields,
  })
  expect(raw[0]?.length).toBeLessThan(25_000)
  expect(raw[0]).toContain('(cut)')
  log.info('many', wide)
  expect(raw[1]?.length).toBeLessThan(10_000)
})

test('fields that cannot be read cost the fields, not the caller', () => {
  const { log, lines } = setup()
  const hostile = Object.defineProperty({}, 'x', { enumerable: true, get: () => expect.fail('read') }) as Fields
  log.info('still here', hostile)
  expect(lines()[0]).toMatchObject({ msg: 'still here', fields: 'unreadable' })
})

test('the level is shared with children and changes at once', () => {
  const { log, lines } = setup({ level: 'warn' })
  const child = log.child({ stack: 'web' })
  child.info('not yet')
  log.level = 'debug'
  child.debug('now', { n: 1 })
  child.level = 'silent'
  log.error('never')
  expect(lines()).toMatchObject([{ msg: 'now', level: 'debug', stack: 'web', n: 1 }])
  expect(child.level).toBe('silent')
})

test('a boolean or number under a secret field name is not masked', () => {
  const { log, lines } = setup()
  log.info('x', { token: true, secrets: 3, password: null, pin_token: 5 })
  expect(lines()[0]).toMatchObject({ token: true, secrets: 3, password: null, pin_token: '***' })
})

test('the silent log writes nothing', () => {
  silentLog.child({}).error('x')
  silentLog.level = 'info'
  expect(silentLog.level).toBe('silent')
})
