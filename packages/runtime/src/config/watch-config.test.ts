import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { secret, setting } from './settings.ts'
import { watchConfig } from './watch-config.ts'

const described = { description: 'A setting.' }

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'follow-config-'))
})
afterAll(() => rm(dir, { recursive: true }))

test('the settings stay the same object until one of their files changes', async () => {
  const [file, key] = [join(dir, 'settings.yaml'), join(dir, 'key')]
  await writeFile(file, 'server: { port: 1 }')
  await writeFile(key, 'first')
  const table = { server: { port: setting(z.number(), 0, described), key: secret(described) } }
  const load = watchConfig({ table, env: { BROKKR_CONFIG_FILE: file, BROKKR__SERVER__KEY_FILE: key } })
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

test('an unreadable file is reported each time, and the next readable version is used', async () => {
  const file = join(dir, 'broken.yaml')
  await writeFile(file, 'server: { port: 1 }')
  const load = watchConfig({ table: { server: { port: setting(z.number(), 0, described) } }, env: { BROKKR_CONFIG_FILE: file } })
  await load()
  await rm(file)
  await expect(load()).rejects.toThrow('ENOENT')
  await expect(load()).rejects.toThrow('ENOENT')
  await writeFile(file, `server: { port: 3 } # ${'x'.repeat(20_000)}`)
  expect((await load()).value.server.port).toBe(3)
})
