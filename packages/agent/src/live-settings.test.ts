import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { listSettings } from '@brokkr/runtime/config/settings.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { expect, test } from 'vitest'
import { agentTable } from './config.ts'
import { createLiveSettings } from './live-settings.ts'

const env = {
  BROKKR__AGENT__BROKER_URL: 'https://brokkr.example.com',
  BROKKR__AGENT__AGENT_NAME: 'edge',
  BROKKR__AGENT__CLUSTER_NAME: 'berlin',
  BROKKR__AGENT__PAK: 'brokkr_BRtest_key',
}
const load = async (change: Record<string, string> = {}) => (await loadConfig({ table: agentTable, env: { ...env, ...change } })).value

async function opened() {
  const warned: unknown[] = []
  const told: string[][] = []
  const log = { ...silentLog, warn: (_message: string, fields?: object) => void warned.push(fields) }
  const settings = createLiveSettings({ log }, await load())
  settings.onChange((paths) => void told.push([...paths]))
  return { settings, warned, told }
}

test('a changed hot setting appears in every view and calls its listeners', async () => {
  const { settings, told, warned } = await opened()
  const { agent, log } = settings.view
  settings.take(await load({ BROKKR__AGENT__ALLOWED_NAMESPACES: '["team-a"]', BROKKR__LOG__LEVEL: 'debug' }))
  expect([agent.allowed_namespaces, log.level, agent.polling_interval]).toEqual([['team-a'], 'debug', 30])
  settings.take(await load({ BROKKR__AGENT__ALLOWED_NAMESPACES: '["team-a"]', BROKKR__LOG__LEVEL: 'debug' }))
  expect(told).toEqual([['agent.allowed_namespaces', 'log.level']])
  expect(warned).toEqual([])
})

test('a changed cold setting keeps its value and is reported once, secrets not at all', async () => {
  const { settings, told, warned } = await opened()
  const change = { BROKKR__AGENT__ADOPTION: 'any', BROKKR__AGENT__PAK: 'brokkr_BRother_key' }
  for (let n = 0; n < 3; n++) settings.take(await load(change))
  expect(settings.view.agent.adoption).toBe('unowned')
  expect([told, warned]).toEqual([[], [{ keys: ['agent.adoption'] }]])
})

test('the hot settings equal those of the documentation', () => {
  const hot = listSettings(agentTable).filter(({ setting }) => setting.hot)
  expect(hot.map(({ path }) => path.replace('agent.', '')).toSorted()).toEqual(
    [
      'allowed_namespaces denied_kinds protected_namespaces prune_guard_count prune_guard_percent dry_run field_validation',
      'apply_concurrency stack_concurrency kube_in_flight kube_qps kube_burst',
      'polling_interval deployment_health_enabled deployment_health_interval resync_interval verify_interval drift_fight_seconds',
      'stream_dead_seconds transport_retry_seconds frozen_after_seconds retry_max_seconds attempt_seconds',
      'kube_events pod_logs pod_log_lines_per_second kube_event_uid_cache_cap log.level',
    ]
      .join(' ')
      .split(' ')
      .toSorted(),
  )
})
