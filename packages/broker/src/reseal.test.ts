import { randomBytes } from 'node:crypto'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { database } from '@brokkr/testing/postgres.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { beforeAll, expect, test } from 'vitest'
import { createGenerator } from './actions/create-generator.ts'
import { createStack } from './actions/create-stack.ts'
import { createWebhook } from './actions/create-webhook.ts'
import { rotateWebhookSecret } from './actions/rotate-webhook-secret.ts'
import { submitDeploymentObject } from './actions/submit-deployment-object.ts'
import { checkKeys } from './check-keys.ts'
import { systemActor } from './domain/actor.ts'
import { sealedYaml } from './domain/sealed-yaml.ts'
import { reseal } from './reseal.ts'
import { createSeal, type Seal } from './seal.ts'
import { type Database, openDatabase } from './store/db.ts'
import * as encryptionKeys from './store/encryption-keys.ts'
import * as webhookSubscriptions from './store/webhook-subscriptions.ts'
import { createReceivers } from './webhooks/receivers.ts'
import { createPartsOpener } from './webhooks/sealed-parts.ts'
import { freshSubscriptions } from './webhooks/subscriptions.ts'

const by = { ...systemActor, kind: 'admin' as const }
const [old, fresh] = [randomBytes(32), randomBytes(32)]
let sql: Database
let url: string
let stackId: string
beforeAll(async () => {
  url = (await database()).url
  sql = openDatabase({ url, schema: 'public', poolSize: 2 })
  const deps = { sql, hooks: freshSubscriptions(), wakeFeed: () => undefined }
  const { generator } = await createGenerator(deps, { name: 'g', description: null, by })
  stackId = (
    await createStack(deps, { name: 's', description: null, generatorId: generator.id, labels: [], annotations: {}, drift: 'heal', by })
  ).id
  return () => sql.close()
})
const submit = (seal: Seal, yamlContent: string) =>
  submitDeploymentObject(
    { sql, seal, hooks: freshSubscriptions(), wakeFeed: () => undefined },
    { stackId, yamlContent, isDeletionMarker: false, expectedSequenceId: undefined, by },
  )
const sealedRows = () => encryptionKeys.objectsPage(sql, { after: '00000000-0000-0000-0000-000000000000', since: null })
const needOldKey = async () =>
  (await sealedRows()).filter(({ id, sealed }) => !createSeal([fresh]).opens(sealedYaml(id), sealed)).map(({ id }) => id)

test('after a reseal no row needs the old key, every text is the same, and nobody who follows stacks is told', async () => {
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
  const texts = new Map((await sealedRows()).map(({ id, sealed }) => [id, createSeal([fresh]).open(sealedYaml(id), sealed)]))
  for (const [n, object] of made.entries()) if (texts.has(object.id)) expect(texts.get(object.id)).toBe(`n: ${n}`)
  // The old key is no longer asked for, and a second run has nothing to do.
  await checkKeys({ sql, seal: createSeal([fresh]) })
  expect(await reseal({ sql, seal: createSeal([fresh]) })).toMatchObject({ resealed: 0, kept: 121, retired: 0 })
})

test('a row that no key opens is named, and no key is retired', async () => {
  const lost = createSeal([randomBytes(32)])
  const object = await submit(lost, 'lost')
  await encryptionKeys.activate(sql, { fingerprint: lost.fingerprints[0] })
  const outcome = await reseal({ sql, seal: createSeal([fresh]) })
  expect(outcome).toMatchObject({ broken: [`deployment_objects.yaml_sealed ${object.id}`], retired: 0 })
})

test('brokkr broker reseal says what it did, and fails while rows are broken', async () => {
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
  expect(refused).toMatchObject({ code: 1, text: expect.stringContaining('the database holds rows sealed under key') as string })
  const { url: other } = await database()
  const done = await run({ BROKKR__BROKER__ENCRYPTION_KEY: key, DATABASE_URL: other })
  expect(done).toMatchObject({ code: 0, text: expect.stringContaining('resealed 0 rows; 0 were under the key already') as string })
})

test('address, credential and secrets of webhooks are sealed anew too', async () => {
  const now = createSeal([fresh])
  const rings = { before: createSeal([old]), during: createSeal([fresh, old]) }
  const hooks = freshSubscriptions()
  const receivers = createReceivers({ cidrs: () => [], hosts: () => [] })
  const deps = { sql, seal: rings.before, hooks, webhooks: { receivers }, wakeFeed: () => undefined }
  const settings = { name: 'h', url: 'https://93.184.216.34/x', auth_header: 'Bearer x', event_types: ['*'] }
  const none = { filters: null, target_labels: null, max_retries: null, timeout_seconds: null, validate: undefined }
  const { id, signing_secret } = await createWebhook(deps, { settings: { ...settings, ...none }, by })
  const rotated = await rotateWebhookSecret(deps, { id, by })
  await reseal({ sql, seal: rings.during })
  const parts = createPartsOpener({ seal: now, metrics: createMetrics() }).open(
    id,
    (await webhookSubscriptions.sealed(sql, { id }))!,
    'test',
  )
  expect(parts).toEqual({ url: settings.url, authHeader: 'Bearer x', secrets: [rotated.signing_secret, signing_secret] })
})
