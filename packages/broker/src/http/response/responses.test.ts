// What leaves the broker: every GET of a real broker as every role. Keys are those the contract names, secrets are in none, and the
// values of Secrets in manifests reach nobody who only reads.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { type CallerName, callers } from '../../auth/permissions.fixture.ts'
import { tenantCall } from '../isolation/generator-calls.fixture.ts'
import { makeTenant, type Tenant } from '../isolation/two-generators.fixture.ts'
import { ask } from '../server/http-call.fixture.ts'
import { responseSchema } from './response-schema.ts'

const canary = `S3CR3T-${unique('c')}`
let broker: TestBroker
let mine: Tenant
let theirs: Tenant
let credentials: Record<CallerName | 'session', Record<string, string>>
beforeAll(async () => {
  broker = await startTestBroker()
  mine = await makeTenant(broker, canary)
  theirs = await makeTenant(broker, unique('other'))
  const reader = (await broker.admin.createAdminPak({ body: { name: 'reader', readonly: true } })).pak
  const paks = { admin: broker.adminPak, reader, owner: mine.generatorPak, foreignGenerator: theirs.generatorPak }
  const headers = Object.entries({ ...paks, itself: mine.agentPak, foreignAgent: theirs.agentPak }).map(([name, pak]) => [
    name,
    { authorization: pak },
  ])
  const signedIn = await ask(broker, 'POST /auth/session', { body: {} })
  const cookie = signedIn.header('set-cookie')?.split(';')[0] ?? ''
  credentials = { ...Object.fromEntries(headers), session: { cookie } } as typeof credentials
  return () => broker.kill()
}, 120_000)

const gets = (Object.entries(endpoints) as [EndpointName, Endpoint][]).filter(
  ([, { method, stream }]) => method === 'GET' && stream !== true,
)
const roles = [...callers, 'session'] as const

/** Key paths a schema allows; `*` where it takes any key. */
function allowed(schema: Record<string, unknown>, at = ''): string[] {
  const branches = [schema['anyOf'], schema['oneOf']].flat().filter(Boolean) as Record<string, unknown>[]
  const items = schema['items'] === undefined ? [] : allowed(schema['items'] as Record<string, unknown>, `${at}[]`)
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, Record<string, unknown>>)
  const isOpen = schema['type'] === 'object' && schema['properties'] === undefined
  return [
    ...(isOpen ? [`${at}.*`] : []),
    ...branches.flatMap((branch) => allowed(branch, at)),
    ...items,
    ...properties.flatMap(([key, entry]) => [`${at}.${key}`, ...allowed(entry, `${at}.${key}`)]),
  ]
}

function keysOf(value: unknown, open: ReadonlySet<string>, at = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item) => keysOf(item, open, `${at}[]`))
  if (typeof value !== 'object' || value === null || open.has(`${at}.*`)) return []
  return Object.entries(value).flatMap(([key, entry]) => [`${at}.${key}`, ...keysOf(entry, open, `${at}.${key}`)])
}

/** Names of columns and settings that hold something secret, and the form of keys, tokens and secrets. */
const forbiddenKeys = /pak_hash|_sealed$|_encrypted$|token_hash|body_hash|secret|password/i
const forbiddenTexts = /brokkr_BR[1-9A-HJ-NP-Za-km-z]{6}_[1-9A-HJ-NP-Za-km-z]{16,}|whsec_|jt_[A-Za-z0-9]{6,}_|\b[0-9a-f]{64}\b/

test.each(gets)('[X6] %s returns the fields of its contract and no secret to every role', async (name, endpoint) => {
  const known = allowed(responseSchema(endpoint.response!))
  const keys = new Set(known)
  for (const role of roles)
    for (const accept of ['application/json', 'application/yaml']) {
      const { call } = tenantCall(name, mine)
      const answer = await ask(broker, call, { pak: null, headers: { ...credentials[role], accept } })
      // Whoever brings a key where a join token is asked for is told nothing.
      if (answer.status === 401) expect([role, answer.text]).toEqual([role, ''])
      else if (answer.status >= 400)
        expect([role, Object.keys(answer.json as object)]).toEqual([role, expect.arrayContaining(['code', 'message'])])
      else if (accept === 'application/json') {
        const found = [...new Set(keysOf(answer.json, keys))]
        expect([role, found.filter((key) => !keys.has(key)), found.filter((key) => forbiddenKeys.test(key))]).toEqual([role, [], []])
      }
      // Checksums are digests of texts their reader sees, not of keys.
      const text = answer.text.replaceAll(/"(yaml_checksum|content_checksum|checksum|digest|target_digest)":"[0-9a-f]{64}"/g, '')
      expect([role, forbiddenTexts.exec(text)?.[0]]).toEqual([role, undefined])
      const readsOnly = role === 'reader' || role === 'session'
      const isOwn = role === 'admin' || role === 'owner' || role === 'itself'
      const holds = answer.text.includes(canary) || answer.text.includes(Buffer.from(canary).toString('base64'))
      if (readsOnly || !isOwn) expect([role, accept, holds]).toEqual([role, accept, false])
    }
})

test('[X6] the canary manifest is visible to its owners', async () => {
  for (const role of ['admin', 'owner', 'itself'] as const)
    expect((await ask(broker, `GET /deployment-objects/${mine.objectId}`, { pak: null, headers: credentials[role] })).text).toContain(
      canary,
    )
  for (const role of ['reader', 'session'] as const) {
    const shown = await ask(broker, `GET /deployment-objects/${mine.objectId}`, { pak: null, headers: credentials[role] })
    expect(shown.text).toContain('password')
    expect(shown.text).toContain('***')
  }
})

test('[X6] response schemas contain no secret field except signing_secret', () => {
  for (const [name, endpoint] of gets) expect([name, endpoint.response !== undefined]).toEqual([name, true])
  const all = (Object.entries(endpoints) as [EndpointName, Endpoint][]).flatMap(([name, { response }]) =>
    response === undefined
      ? []
      : allowed(responseSchema(response))
          .filter((key) => forbiddenKeys.test(key))
          .map((key) => `${name}${key}`),
  )
  // Shown once, where it is made.
  expect(all).toEqual(all.filter((key) => key.endsWith('signing_secret')))
})
