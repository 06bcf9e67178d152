import { mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { ConfigError, findNearestName } from './config-error.ts'
import { diffConfig, loadConfig } from './load-config.ts'
import { count, listSettings, optional, port, requiredSecret, seconds, secret, secretList, setting } from './settings.ts'

const described = { description: 'A setting.' }

const table = {
  database: { url: requiredSecret({ ...described, env: ['DATABASE_URL'] }), poolSize: setting(count, 50, described) },
  server: {
    host: setting(z.string(), '127.0.0.1', described),
    port: setting(port, 3000, described),
    tlsTerminatedElsewhere: setting(z.boolean(), false, described),
    tlsCertFile: optional(z.string(), described),
    trustedProxies: setting(z.array(z.string()), [], described),
  },
  log: { level: setting(z.enum(['debug', 'info']), 'info', { ...described, hot: true }) },
  broker: {
    encryptionKey: secret({ ...described, schema: z.string().regex(/^[0-9a-f]{8}$/, 'must be 8 hex digits') }),
    encryptionKeysPrevious: secretList(described),
    webhookDeliveryIntervalSeconds: setting(seconds, 5, { ...described, hot: true }),
    identities: setting(z.record(z.string(), z.string()), {}, described),
  },
  feed: { streamLifeSeconds: setting(z.tuple([seconds, seconds]), [1800, 3600], described) },
  tasks: { 'webhook-delivery': { everySeconds: optional(seconds, { ...described, hot: true }) } },
  telemetry: { enabled: setting(z.boolean(), false, described), broker: { enabled: optional(z.boolean(), described) } },
}
const database = { DATABASE_URL: 'postgres://u:hunter2@h/d' }

let dir = ''
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'brokkr-config-'))
})
afterAll(() => rm(dir, { recursive: true }))

let files = 0
async function file(text: string, extension = 'toml'): Promise<string> {
  const path = join(dir, `${files++}.${extension}`)
  await writeFile(path, text)
  return path
}

async function problemsOf(input: Omit<Parameters<typeof loadConfig<typeof table>>[0], 'table'>): Promise<string> {
  const outcome = await loadConfig({ table, ...input }).catch((error: unknown) => error)
  expect(outcome).toBeInstanceOf(ConfigError)
  return (outcome as ConfigError).message
}

test('unset settings have their default and the source default', async () => {
  const { value, sources, hot } = await loadConfig({ table, env: database })
  expect(value.server).toEqual({ host: '127.0.0.1', port: 3000, tlsTerminatedElsewhere: false, tlsCertFile: null, trustedProxies: [] })
  expect(value.database.url.reveal()).toBe('postgres://u:hunter2@h/d')
  expect(sources.get('server.tls_cert_file')).toBe('default')
  expect(sources.get('database.url')).toBe('env')
  expect([...hot]).toEqual(['log.level', 'broker.webhook_delivery_interval_seconds', 'tasks.webhook-delivery.every_seconds'])
})

test('the order is defaults, file, environment, flags', async () => {
  const path = await file('[server]\nport = 1\nhost = "file"\ntls_cert_file = "f"\n[database]\nurl = "file-url"\n')
  const env = { ...database, BROKKR_CONFIG_FILE: path, BROKKR__SERVER__PORT: '2', BROKKR__SERVER__HOST: 'env' }
  const { value, sources } = await loadConfig({ table, env, flags: { 'server.port': '3', 'server.host': undefined } })
  expect(value.server).toMatchObject({ port: 3, host: 'env', tlsCertFile: 'f' })
  expect(value.database.url.reveal()).toBe(database.DATABASE_URL)
  expect(['server.port', 'server.host', 'server.tls_cert_file', 'database.pool_size'].map((key) => sources.get(key))).toEqual([
    'flag',
    'env',
    'file',
    'default',
  ])
})

test('BROKKR__DATABASE__URL overrides DATABASE_URL without an error', async () => {
  const { value } = await loadConfig({ table, env: { ...database, BROKKR__DATABASE__URL: 'other' } })
  expect(value.database.url.reveal()).toBe('other')
})

const yaml = `
server: { tlsTerminatedElsewhere: true, trusted_proxies: [10.0.0.0/8] }
broker:
  webhookDeliveryIntervalSeconds: 0.2
  identities: { team-a: deployer }
tasks: { webhook-delivery: { every_seconds: 0.5 } }
telemetry: { broker: { enabled: true } }
`
const toml = `
[server]
tls_terminated_elsewhere = true
trustedProxies = ["10.0.0.0/8"]
[broker]
webhook_delivery_interval_seconds = 0.2
identities = { team-a = "deployer" }
[tasks.webhook_delivery]
everySeconds = 0.5
[telemetry.broker]
enabled = true
`
test.each([
  ['toml', toml],
  ['yaml', yaml],
  ['yml', yaml],
  [
    'json',
    '{"server":{"tls-terminated-elsewhere":true,"trusted_proxies":"10.0.0.0/8"},"broker":{"webhook_delivery_interval_seconds":"0.2","identities":{"team-a":"deployer"}},"tasks":{"webhookDelivery":{"every_seconds":0.5}},"telemetry":{"broker":{"enabled":true}}}',
  ],
])('%s: keys in any spelling, nested sections, fractions, settings that are tables', async (extension, text) => {
  const { value } = await loadConfig({ table, env: database, file: await file(text, extension) })
  expect(value.server).toMatchObject({ tlsTerminatedElsewhere: true, trustedProxies: ['10.0.0.0/8'] })
  expect(value.broker).toMatchObject({ webhookDeliveryIntervalSeconds: 0.2, identities: { 'team-a': 'deployer' } })
  expect(value.tasks['webhook-delivery'].everySeconds).toBe(0.5)
  expect(value.telemetry).toEqual({ enabled: false, broker: { enabled: true } })
})

test.each([
  ['SERVER__PORT', '8080', 'server.port', 8080],
  ['SERVER__TLS_TERMINATED_ELSEWHERE', 'true', 'server.tls_terminated_elsewhere', true],
  ['SERVER__TLS_TERMINATED_ELSEWHERE', '0', 'server.tls_terminated_elsewhere', false],
  ['SERVER__TRUSTED_PROXIES', '10.0.0.0/8, 192.168.0.0/16', 'server.trusted_proxies', ['10.0.0.0/8', '192.168.0.0/16']],
  ['SERVER__TRUSTED_PROXIES', '["a,b"]', 'server.trusted_proxies', ['a,b']],
  ['SERVER__TRUSTED_PROXIES', 'one', 'server.trusted_proxies', ['one']],
  ['SERVER__TRUSTED_PROXIES', '', 'server.trusted_proxies', []],
  ['SERVER__HOST', '0', 'server.host', '0'],
  ['SERVER__TLS_CERT_FILE', '', 'server.tls_cert_file', null],
  ['FEED__STREAM_LIFE_SECONDS', '1, 2.5', 'feed.stream_life_seconds', [1, 2.5]],
  ['BROKER__IDENTITIES', '{"a":"b"}', 'broker.identities', { a: 'b' }],
  ['TASKS__WEBHOOK_DELIVERY__EVERY_SECONDS', '.2', 'tasks.webhook-delivery.every_seconds', 0.2],
])('BROKKR__%s=%s is %s = %j', async (name, text, path, expected) => {
  const { flat, sources } = await loadConfig({ table, env: { ...database, [`BROKKR__${name}`]: text } })
  expect(flat.get(path)).toEqual(expected)
  expect(sources.get(path)).toBe('env')
})

test('a secret file can be set in the config file, the environment or by its alias', async () => {
  const key = await file('  0123abcd\n\n', 'key')
  const url = await file('postgres://from-file\n', 'key')
  const previous = await file('one\ntwo\n', 'key')
  const env = { DATABASE_URL_FILE: url, BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS_FILE: previous }
  const { value, sources } = await loadConfig({ table, env, file: await file(`[broker]\nencryption_key_file = "${key}"`) })
  expect(value.broker.encryptionKey?.reveal()).toBe('0123abcd')
  expect(value.broker.encryptionKeysPrevious.map((one) => one.reveal())).toEqual(['one', 'two'])
  expect(value.database.url.reveal()).toBe('postgres://from-file')
  expect(sources.get('broker.encryption_key')).toBe('file')
})

test('secrets print as *** wherever the settings are printed', async () => {
  const loaded = await loadConfig({ table, env: { ...database, BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS: 'hunter2,hunter3' } })
  expect(`${JSON.stringify(loaded.value)} ${inspect(loaded, { depth: 9 })}`).not.toContain('hunter')
})

test('an error lists every problem with location and remedy, without secrets', async () => {
  const path = await file('sever = 1\n[server]\nport = 70000\nhots = "x"\n[broker]\nencryption_key = "hunter2"\n[log]\nlevel = "loud"\n')
  const env = { BROKKR__SERVER__TRUSTED_PROXYS: 'a', BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: 'often' }
  expect(await problemsOf({ env, file: path, flags: { 'server.prt': 1 } })).toBe(
    [
      'the configuration has 9 problems:',
      `  sever (file ${path}): is not a known key; did you mean server?`,
      `  server.hots (file ${path}): is not a known key; did you mean server.host?`,
      '  server.trusted_proxys (env BROKKR__SERVER__TRUSTED_PROXYS): is not a known key; did you mean server.trusted_proxies?',
      '  server.prt (flag server.prt): is not a known key; did you mean server.port?',
      '  database.url: is required: give it in the file or as BROKKR__DATABASE__URL or BROKKR__DATABASE__URL_FILE or DATABASE_URL',
      `  server.port (file ${path}): 70000 is not right: Too big: expected number to be <=65535`,
      `  log.level (file ${path}): "loud" is not right: Invalid option: expected one of "debug"|"info"`,
      `  broker.encryption_key (file ${path}): must be 8 hex digits (the value is secret and not shown)`,
      '  broker.webhook_delivery_interval_seconds (env BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS): "often" is not right: Invalid input: expected number, received string',
    ].join('\n'),
  )
})

test.each([
  ['a file that is not there', 'none.toml', undefined, 'cannot be read (ENOENT)'],
  ['an unknown extension', 'x.ini', 'a=1', 'has the extension ".ini": name it .toml'],
  ['broken TOML with a secret in the line', 'x.toml', '[broker]\nkey = "hunter2', 'is not valid TOML in line 2'],
  ['broken YAML with a secret in the line', 'x.yaml', 'a: 1\nkey: "hunter2\n  b: [', 'is not valid YAML in line'],
  ['a key given twice in YAML', 'x.yaml', 'server: {}\nserver: {}', 'DUPLICATE_KEY'],
  ['a list instead of sections', 'x.yaml', '- a', 'is not a table of keys'],
  ['a text instead of a section', 'x.toml', 'server = "hunter2"', 'server (file'],
  ['a file of a megabyte and more', 'x.toml', `a = "${'x'.repeat(1024 * 1024)}"`, 'is larger than 1048576 bytes'],
  [
    'aliases that grow',
    'x.yaml',
    'a: &a [1,2]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c]',
    'more than 100 times',
  ],
  ['a prototype key', 'x.json', '{"__proto__":{"x":1}}', '__proto__ (file'],
])('%s', async (_what, name, text, expected) => {
  const path = join(dir, `${files++}-${name}`)
  if (text !== undefined) await writeFile(path, text)
  const message = await problemsOf({ env: database, file: path })
  expect(message).toContain(expected)
  expect(message).not.toContain('hunter2')
})

test.each([
  ['two spellings in the file', '[server]\ntls_cert_file = "a"\ntlsCertFile = "b"', {}, 'server.tls_cert_file'],
  ['a secret and its file', '[broker]\nencryption_key = "0123abcd"\nencryption_key_file = "/x"', {}, 'broker.encryption_key'],
  [
    'a secret and its file in the environment',
    '',
    { BROKKR__BROKER__ENCRYPTION_KEY: '0123abcd', BROKKR__BROKER__ENCRYPTION_KEY_FILE: '/x' },
    'broker.encryption_key',
  ],
])('%s: set twice', async (_what, text, env, key) => {
  expect(await problemsOf({ env: { ...database, ...env }, file: await file(text) })).toMatch(new RegExp(`${key}.*is given twice`))
})

test.each([
  ['missing', undefined, 'cannot be read (ENOENT)'],
  ['empty', ' \n', 'is empty'],
  ['too large', 'x'.repeat(70_000), 'is larger than 65536 bytes'],
])('a secret file that is %s', async (what, text, expected) => {
  const path = join(dir, `secret-${what}`)
  if (text !== undefined) await writeFile(path, text)
  expect(await problemsOf({ env: { DATABASE_URL_FILE: path } })).toContain(expected)
})

test('a generated secret is written once to its file, readable by its owner only', async () => {
  let made = 0
  const making = { broker: { key: secret({ ...described, generate: () => `fresh-${(made += 1)}` }), other: secret(described) } }
  const path = join(dir, 'made.key')
  const load = (createMissingSecrets: boolean) =>
    loadConfig({ table: making, env: { BROKKR__BROKER__KEY_FILE: path }, createMissingSecrets })
  await expect(load(false)).rejects.toThrow('cannot be read (ENOENT)')
  // Several programs that start at once agree on one key.
  const keys = await Promise.all([1, 2, 3, 4].map(async () => (await load(true)).value.broker.key?.reveal()))
  expect(new Set(keys).size).toBe(1)
  expect((await load(true)).value.broker.key?.reveal()).toBe(keys[0])
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect((await readdir(dir)).filter((name) => name.includes('.new'))).toEqual([])
})

test('a secret is not created in a missing folder or over an empty file or a link', async () => {
  const making = { broker: { key: secret({ ...described, generate: () => 'fresh' }) } }
  const load = (path: string) => loadConfig({ table: making, env: { BROKKR__BROKER__KEY_FILE: path }, createMissingSecrets: true })
  await expect(load(join(dir, 'nowhere', 'key'))).rejects.toThrow('does not exist and cannot be created (ENOENT): create its folder')
  await writeFile(join(dir, 'empty.key'), '')
  await expect(load(join(dir, 'empty.key'))).rejects.toThrow('is empty')
  await symlink(join(dir, 'elsewhere'), join(dir, 'dangling.key'))
  await expect(load(join(dir, 'dangling.key'))).rejects.toThrow('cannot be read (ENOENT)')
})

test('an empty required secret is missing, an empty optional one is none', async () => {
  expect(await problemsOf({ env: { DATABASE_URL: '' } })).toContain('database.url (env DATABASE_URL): is empty')
  const { value } = await loadConfig({ table, env: { ...database, BROKKR__BROKER__ENCRYPTION_KEY: '' } })
  expect(value.broker.encryptionKey).toBeNull()
})

test('a schema error that quotes its input does not show a secret', async () => {
  const talkative = z.string().refine(() => false, { error: (issue) => `${String(issue.input)} is weak` })
  const outcome = loadConfig({
    table: { broker: { key: secret({ ...described, schema: talkative }) } },
    env: { BROKKR__BROKER__KEY: 'hunter2' },
  })
  await expect(outcome).rejects.toThrow(
    'broker.key (env BROKKR__BROKER__KEY): is not a text of the right form (the value is secret and not shown)',
  )
})

test('sections of other programs may share file and environment', async () => {
  const input = {
    table,
    env: { ...database, BROKKR__AGENT__NAME: 'x' },
    file: await file('[agent]\nanything = 1\n[server]\nport = 1'),
    ignoredSections: ['agent'],
  }
  expect((await loadConfig(input)).value.server.port).toBe(1)
  expect(await problemsOf({ env: input.env })).toContain('agent.name')
})

test('rules over several settings are checked also while another setting is wrong', async () => {
  const check = (value: { server: { host: string } }) =>
    value.server.host === '0.0.0.0' ? [{ path: 'server.host', problem: 'needs TLS' }] : []
  expect(await problemsOf({ env: database, flags: { 'server.host': '0.0.0.0' }, check })).toContain('server.host: needs TLS')
  expect(await problemsOf({ env: database, flags: { 'server.host': '0.0.0.0', 'server.port': -1 }, check })).toContain('needs TLS')
})

test('the settings are frozen', async () => {
  const { value } = await loadConfig({ table, env: database })
  expect(() => Object.assign(value.server, { port: 1 })).toThrow(TypeError)
  expect(() => value.server.trustedProxies.push('x')).toThrow(TypeError)
})

test('a reload returns the changed settings, hot or not, with masked secrets', async () => {
  const before = await loadConfig({ table, env: { ...database, BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS: 'hunter2' } })
  const after = await loadConfig({
    table,
    env: { DATABASE_URL: 'hunter4', BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS: 'hunter2,hunter3' },
    flags: { 'log.level': 'debug', 'server.trusted_proxies': ['x'] },
  })
  expect(diffConfig(before, after)).toEqual([
    { key: 'database.url', oldValue: '***', newValue: '***', hot: false },
    { key: 'server.trusted_proxies', oldValue: [], newValue: ['x'], hot: false },
    { key: 'log.level', oldValue: 'info', newValue: 'debug', hot: true },
    { key: 'broker.encryption_keys_previous', oldValue: ['***'], newValue: ['***', '***'], hot: false },
  ])
  expect(diffConfig(after, after)).toEqual([])
})

test.each([
  ['sever', ['server', 'log'], 'server'],
  ['server.prt', ['server.port', 'server.host'], 'server.port'],
  ['zzz', ['server', 'log'], null],
  ['x'.repeat(100_000), ['server'], null],
])('the name nearest to %.20s in %j is %s', (name, known, expected) => {
  expect(findNearestName(name, known)).toBe(expected)
})

test('settings are listed with their documented paths', () => {
  expect(
    listSettings(table)
      .map(({ path }) => path)
      .slice(0, 4),
  ).toEqual(['database.url', 'database.pool_size', 'server.host', 'server.port'])
})
