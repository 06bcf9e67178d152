import { randomBytes } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'
import { systemActor } from '../audit/rules.ts'
import { submitDeploymentObject } from '../deployments/actions/submit-deployment-object.ts'
import { toManifestContext } from '../deployments/rules/stored-manifest.ts'
import { createGenerator } from '../generators/actions/generators.ts'
import { createSeal, type Seal } from '../seal.ts'
import { createStack } from '../stacks/actions/stacks.ts'
import { createReceivers } from '../webhooks/delivery/receivers.ts'
import { createWebhook, rotateWebhookSecret } from '../webhooks/subscriptions/actions/webhooks.ts'
import { createPartsOpener } from '../webhooks/subscriptions/sealed-parts.ts'
import * as webhookSubscriptions from '../webhooks/subscriptions/store/webhook-subscriptions.ts'
import { freshSubscriptions } from '../webhooks/subscriptions/subscription-cache.ts'
import { checkKeys } from './check-keys.ts'
import { reseal } from './reseal.ts'
import * as encryptionKeys from './store.ts'

const actor = { ...systemActor, kind: 'admin' as const }
const [old, fresh] = [randomBytes(32), randomBytes(32)]
let sql: Database
let url: string
let stackId: string
beforeAll(async () => {
  url = (await database()).url
  sql = openDatabase({ url, schema: 'public', poolSize: 2 })
  const deps = { sql, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  const { generator } = await createGenerator(deps, { name: 'g', description: null, actor })
  stackId = (
    await createStack(deps, { name: 's', description: null, generatorId: generator.id, labels: [], annotations: {}, drift: 'heal', actor })
  ).id
  return () => sql.close()
})
const submit = (seal: Seal, yamlContent: string) =>
  submitDeploymentObject(
    { sql, seal, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined },
    { stackId, yamlContent, isDeletionMarker: false, expectedSequenceId: undefined, actor },
  )
const sealedRows = () => encryptionKeys.objectsPage(sql, { after: '00000000-0000-0000-0000-000000000000', since: null })
const needOldKey = async () =>
  (await sealedRows()).filter(({ id, sealed }) => !createSeal([fresh]).canOpen(toManifestContext(id), sealed)).map(({ id }) => id)

test('a reseal keeps all texts and produces no change rows', async () => {
  const oldRing = createSeal([old])
  await checkKeys({ sql, seal: oldRing })
  const made = await Promise.all(Array.from({ length: 120 }, (_, n) => submit(oldRing, `n: ${n}`)))
  const ring = createSeal([fresh, old])
  await checkKeys({ sql, seal: ring })
  await submit(ring, 'under the new key')
  const changes = async () => {
    const client = await sql.connect()
    const { rows } = await client.query<{ n: string }>(
      `select (select count(*) from change_log) || ' ' || (select string_agg(xid::text, ' ' order by id) from deployment_objects) as n`,
    )
    await client.end()
    return rows[0]!.n
  }
  const before = await changes()
  expect(await reseal({ sql, seal: ring })).toEqual({ resealed: 120, kept: 1, broken: [], retired: 1 })
  expect(await needOldKey()).toEqual([])
  expect(await changes()).toBe(before)
  const texts = new Map((await sealedRows()).map(({ id, sealed }) => [id, createSeal([fresh]).open(toManifestContext(id), sealed)]))
  for (const [n, object] of made.entries()) if (texts.has(object.id)) expect(texts.get(object.id)).toBe(`n: ${n}`)
  // The old key is no longer asked for, and a second run has nothing to do.
  await checkKeys({ sql, seal: createSeal([fresh]) })
  expect(await reseal({ sql, seal: createSeal([fresh]) })).toMatchObject({ resealed: 0, kept: 121, retired: 0 })
})

test('a row that no key decrypts is named, and no key is retired', async () => {
  const lost = createSeal([randomBytes(32)])
  const object = await submit(lost, 'lost')
  await encryptionKeys.activate(sql, { fingerprint: lost.fingerprints[0] })
  const outcome = await reseal({ sql, seal: createSeal([fresh]) })
  expect(outcome).toMatchObject({ broken: [`deployment_objects.yaml_sealed ${object.id}`], retired: 0 })
})

test('brokkr broker reseal prints its result and fails while rows are broken', async () => {
  const run = async (env: Record<string, string>) => {
    const program = await startProgram({
      name: 'reseal',
      main: 'packages/cli/src/main.ts',
      args: ['broker', 'reseal'],
      env: { DATABASE_URL: url, ...env },
    })
    return { code: (await program.exited).code, text: program.text() }
  }
  const key = randomBytes(32).toString('hex')
  const refused = await run({ BROKKR__BROKER__ENCRYPTION_KEY: key })
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('the database has rows encrypted with key') as string })
  const { url: other } = await database()
  const done = await run({ BROKKR__BROKER__ENCRYPTION_KEY: key, DATABASE_URL: other })
  expect(done).toMatchObject({ code: 0, text: expect.stringContaining('resealed 0 rows; 0 already used the current key') as string })
})

test('a reseal includes webhook addresses, credentials and secrets', async () => {
  const now = createSeal([fresh])
  const rings = { before: createSeal([old]), during: createSeal([fresh, old]) }
  const subscriptionCache = freshSubscriptions()
  const receivers = createReceivers({ cidrs: () => [], hosts: () => [] })
  const deps = { sql, seal: rings.before, subscriptionCache, webhooks: { receivers }, wakeFeed: () => undefined }
  const settings = { name: 'h', url: 'https://93.184.216.34/x', auth_header: 'Bearer x', event_types: ['*'] }
  const none = { filters: null, target_labels: null, max_retries: null, timeout_seconds: null, validate: undefined }
  const { id, signing_secret } = await createWebhook(deps, { settings: { ...settings, ...none }, actor })
  const rotated = await rotateWebhookSecret(deps, { id, actor })
  await reseal({ sql, seal: rings.during })
  const parts = createPartsOpener({ seal: now, metrics: createMetrics() }).open(
    id,
    (await webhookSubscriptions.sealed(sql, { id }))!,
    'test',
  )
  expect(parts).toEqual({ url: settings.url, authHeader: 'Bearer x', secrets: [rotated.signing_secret, signing_secret] })
})
