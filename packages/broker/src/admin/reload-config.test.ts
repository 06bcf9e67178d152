// Reload of the configuration through real brokers: by a call in every process, by the watcher, and under load.
import { mkdtemp, rename, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let folder: string
let file: string
let broker: TestBroker
let sibling: TestBroker
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'brokkr-reload-'))
  file = join(folder, 'broker.toml')
  await writeFile(file, '[broker]\nmanifest_validation = "lenient"\n')
  broker = await startTestBroker({
    env: {
      BROKKR_CONFIG_FILE: file,
      BROKKR_CONFIG_WATCHER_ENABLED: 'false',
      // On a slow machine the load of a test alone delays the event loop; only a reload may make requests fail here.
      BROKKR__LIMITS__EVENT_LOOP_DELAY_MS: '60000',
    },
  })
  sibling = await broker.sibling()
  return () => Promise.all([broker.kill(), sibling.kill()])
}, 120_000)

const readSetting = async ({ admin }: TestBroker, key: string) => (await admin.getConfig({}))[key]
const reload = () => ask(broker, 'POST /admin/config/reload')

test('a reload takes effect in every process, lists all changes and writes an audit entry', async () => {
  await writeFile(file, '[broker]\nmanifest_validation = "strict"\nwebhook_delivery_batch_size = 40\n[server]\nshutdown_seconds = 20\n')
  const { status, json } = await reload()
  expect([status, json]).toMatchObject([
    200,
    {
      changes: [
        { key: 'server.shutdown_seconds', old_value: '30', new_value: '20 (restart needed)' },
        { key: 'broker.webhook_delivery_batch_size', old_value: '50', new_value: '40' },
        { key: 'broker.manifest_validation', old_value: 'lenient', new_value: 'strict' },
      ],
    },
  ])
  expect(await readSetting(broker, 'broker.manifest_validation')).toEqual({ value: 'strict', source: 'file', reloadable: true })
  expect(await readSetting(broker, 'server.shutdown_seconds')).toMatchObject({ value: 30, reloadable: false })
  await waitFor('the other process to reload', async () => (await readSetting(sibling, 'broker.manifest_validation'))?.value === 'strict')
  const stack = await createStack()
  const submitted = await ask(sibling, `POST /stacks/${stack}/deployment-objects`, { body: { yaml_content: 'a: 1' } })
  expect([submitted.status, submitted.code]).toEqual([400, 'invalid_deployment_object'])
  const { logs } = await broker.admin.listAuditLogs({ query: { action: 'config.reloaded' } })
  expect(logs.some(({ actor_type }) => actor_type === 'admin')).toBe(true)
})

test('a reload without a change lists only settings that wait for a restart', async () => {
  expect((await reload()).json).toMatchObject({ success: true, changes: [{ new_value: '20 (restart needed)' }] })
})

async function createStack(): Promise<string> {
  const { generator } = await broker.admin.createGenerator({ body: { name: crypto.randomUUID() } })
  return (await broker.admin.createStack({ body: { name: crypto.randomUUID(), generator_id: generator.id } })).id
}

test.each<[string, string, object]>([
  [
    'a wrong value',
    '[broker]\nagent_self_registration = true\nwebhook_delivery_batch_size = "many"\n',
    { path: 'broker.webhook_delivery_batch_size', line: 3 },
  ],
  [
    'an unknown key',
    '[broker]\nagent_self_registration = true\n\nwebhook_delivery_batchsizes = 3\n',
    { path: 'broker.webhook_delivery_batchsizes', line: 4 },
  ],
  ['a syntax error', '[broker\nagent_self_registration = true\n', { message: expect.stringContaining('line 1') }],
])('a file with %s names key and line and changes nothing', async (_, text, error) => {
  await writeFile(file, text)
  const { status, code, json } = await reload()
  expect([status, code]).toEqual([422, 'config_invalid'])
  expect((json as { details: { errors: unknown[] } }).details.errors).toEqual([expect.objectContaining(error)])
  expect(await readSetting(broker, 'broker.agent_self_registration')).toMatchObject({ value: false })
})

test('no request fails while the configuration is reloaded again and again', async () => {
  const texts = [40, 41].map((size) => `[broker]\nwebhook_delivery_batch_size = ${size}\n[cors]\nmax_age_seconds = ${size}\n`)
  const done = new AbortController()
  const statuses: number[] = []
  const load = Array.from({ length: 2 }, async () => {
    while (!done.signal.aborted) statuses.push((await ask(broker, 'GET /stacks?limit=1')).status)
  })
  for (let round = 0; round < 10; round += 1) {
    await writeFile(file, texts[round % 2] ?? '')
    expect((await reload()).status).toBe(200)
  }
  done.abort()
  await Promise.all(load)
  expect([statuses.length > 0, statuses.filter((status) => status !== 200)]).toEqual([true, []])
})

test('only admins reload the configuration', async () => {
  const { pak } = await broker.admin.createGenerator({ body: { name: crypto.randomUUID() } })
  expect((await ask(broker, 'POST /admin/config/reload', { pak })).code).toBe('admin_required')
})

test('the watcher reloads a file that is replaced by a symbolic link, and ignores an invalid one', async () => {
  const watched = await mkdtemp(join(tmpdir(), 'brokkr-watch-'))
  const swap = async (name: string, text: string) => {
    await writeFile(join(watched, name), text)
    await symlink(name, join(watched, `link-${name}`))
    await rename(join(watched, `link-${name}`), join(watched, 'broker.toml'))
  }
  await swap('one.toml', '[broker]\nwebhook_delivery_batch_size = 30\n')
  const env = {
    BROKKR_CONFIG_FILE: join(watched, 'broker.toml'),
    BROKKR_CONFIG_WATCHER_ENABLED: 'true',
    BROKKR_CONFIG_WATCHER_DEBOUNCE_SECONDS: '0.1',
  }
  const watching = await broker.sibling(env)
  try {
    const isSize = (size: number) => async () => (await readSetting(watching, 'broker.webhook_delivery_batch_size'))?.value === size
    await swap('two.toml', '[broker]\nwebhook_delivery_batch_size = 31\n')
    await waitFor('the first change', isSize(31))
    await swap('three.toml', '[broker]\nwebhook_delivery_batch_size = "many"\n')
    await waitFor('the failed reload', async () => watching.logTail(200).includes('configuration not reloaded'))
    expect(await isSize(31)()).toBe(true)
    await swap('four.toml', '[broker]\nwebhook_delivery_batch_size = 32\n')
    await waitFor('the second change', isSize(32))
  } finally {
    await watching.kill()
  }
})
