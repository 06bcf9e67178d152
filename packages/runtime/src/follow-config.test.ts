import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { secret, setting } from './config-table.ts'
import { followConfig } from './follow-config.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'follow-config-'))
})
afterAll(() => rm(dir, { recursive: true }))

test('the settings stay the very same value until a file they came from holds something else', async () => {
  const [file, key] = [join(dir, 'settings.yaml'), join(dir, 'key')]
  await writeFile(file, 'server: { port: 1 }')
  await writeFile(key, 'first')
  const table = { server: { port: setting(z.number(), 0), key: secret() } }
  const load = followConfig({ table, env: { BROKKR_CONFIG_FILE: file, BROKKR__SERVER__KEY_FILE: key } })
  const first = await load()
  expect(await load()).toBe(first)
  // As long as before: neither size nor time says that it changed.
  await writeFile(file, 'server: { port: 2 }')
  const second = await load()
  expect(second.value.server.port).toBe(2)
  await writeFile(key, 'other')
  const third = await load()
  expect(third.value.server.key?.reveal()).toBe('other')
  expect(await load()).toBe(third)
})

test('a file that cannot be read is told each time, and what comes after it is taken', async () => {
  const file = join(dir, 'broken.yaml')
  await writeFile(file, 'server: { port: 1 }')
  const load = followConfig({ table: { server: { port: setting(z.number(), 0) } }, env: { BROKKR_CONFIG_FILE: file } })
  await load()
  await rm(file)
  await expect(load()).rejects.toThrow('ENOENT')
  await expect(load()).rejects.toThrow('ENOENT')
  await writeFile(file, `server: { port: 3 } # ${'x'.repeat(20_000)}`)
  expect((await load()).value.server.port).toBe(3)
})
