import { expect, test } from 'vitest'
import { z } from 'zod'
import { createLiveConfig } from './live-config.ts'
import { loadConfig } from './load-config.ts'
import { secret, setting } from './settings.ts'

const table = {
  server: { port: setting(z.number(), 3000, { description: 'Port.' }) },
  log: { level: setting(z.string(), 'info', { description: 'Level.', hot: true }) },
  hooks: { hosts: setting(z.array(z.string()), [], { description: 'Hosts.', hot: true }), key: secret({ description: 'Key.', hot: true }) },
}
const load = (flags: Record<string, unknown>) => loadConfig({ table, env: {}, flags })

test('a reload changes hot settings in the objects that parts of the program hold', async () => {
  const live = createLiveConfig(await load({}))
  const { log, hooks } = live.value
  live.apply(await load({ 'log.level': 'debug', 'hooks.hosts': ['a.test'] }))
  expect([log.level, hooks.hosts]).toEqual(['debug', ['a.test']])
  expect([live.current().flat.get('log.level'), live.current().sources.get('log.level')]).toEqual(['debug', 'flag'])
})

test('a setting that needs a restart keeps its value and is listed at every reload', async () => {
  const live = createLiveConfig(await load({}))
  const next = await load({ 'server.port': 4000 })
  live.apply(next)
  expect([live.value.server.port, live.current().flat.get('server.port')]).toEqual([3000, 3000])
  expect(live.compare(next)).toEqual([{ key: 'server.port', oldValue: 3000, newValue: 4000, hot: false }])
})

test('a setting that is removed from its source returns to its default', async () => {
  const live = createLiveConfig(await load({ 'log.level': 'debug' }))
  live.apply(await load({}))
  expect([live.value.log.level, live.current().sources.get('log.level')]).toEqual(['info', 'default'])
})

test('changes of secrets are listed without their values', async () => {
  const live = createLiveConfig(await load({ 'hooks.key': 'one' }))
  expect(JSON.stringify(live.compare(await load({ 'hooks.key': 'two' })))).not.toMatch(/one|two/)
})
