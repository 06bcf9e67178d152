import { readFileSync } from 'node:fs'
import { ConfigError } from '@brokkr/runtime/config/config-error.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { listSettings } from '@brokkr/runtime/config/settings.ts'
import { expect, test } from 'vitest'
import { agentTable, checkAgentConfig } from './config.ts'
import { version } from './version.ts'

const env = {
  BROKKR__AGENT__BROKER_URL: 'https://brokkr.example.com',
  BROKKR__AGENT__AGENT_NAME: 'edge',
  BROKKR__AGENT__CLUSTER_NAME: 'berlin',
  BROKKR__AGENT__PAK: 'brokkr_BRtest_key',
}
const load = (change: Record<string, string> = {}) => loadConfig({ table: agentTable, env: { ...env, ...change }, check: checkAgentConfig })

test('the defaults equal those of the documentation', async () => {
  const { flat } = await load()
  const given = new Set(['agent.broker_url', 'agent.agent_name', 'agent.cluster_name', 'agent.pak'])
  expect(Object.fromEntries([...flat].filter(([path]) => !given.has(path)))).toEqual({
    'agent.join_token': null,
    'agent.pak_rotation_days': 30,
    'agent.insecure_http': false,
    'agent.ca_file': null,
    'agent.server_name': null,
    'agent.pin': null,
    'agent.client_cert': null,
    'agent.client_key': null,
    'agent.generator_ids': [],
    'agent.max_retries': 60,
    'agent.request_timeout': 30,
    'agent.polling_interval': 30,
    'agent.transport': 'auto',
    'agent.ws_force_rest': false,
    'agent.ws_url': null,
    'agent.stream_dead_seconds': 45,
    'agent.stream_silent_seconds': 30,
    'agent.long_poll_seconds': 25,
    'agent.transport_retry_seconds': 600,
    'agent.reconnect_max_seconds': 30,
    'agent.frozen_after_seconds': 300,
    'agent.refused_retry_seconds': 60,
    'agent.digest_interval': 300,
    'agent.snapshot_interval': 86_400,
    'agent.state_dir': null,
    'agent.event_spool': 10_000,
    'agent.event_spool_bytes': 16_777_216,
    'agent.lease_seconds': 15,
    'agent.work_order_types': ['build', 'custom', 'flow'],
    'agent.work_order_concurrency': 1,
    'agent.work_order_check_seconds': 5,
    'agent.build_timeout': 900,
    'agent.work_order_cleanup_after': 86_400,
    'agent.diagnostics_interval': 10,
    'agent.plans_interval': 10,
    'agent.webhook_delivery': true,
    'agent.webhook_interval': 10,
    'agent.webhook_allowed_cidrs': [],
    'agent.webhook_denied_cidrs': [],
    'agent.kube_events': true,
    'agent.pod_logs': true,
    'agent.pod_log_lines_per_second': 100,
    'agent.kube_event_uid_cache_cap': 10_000,
    'agent.telemetry_interval': 1,
    'agent.inventory_interval': 5,
    'agent.kubeconfig_path': null,
    'agent.namespace': null,
    'agent.health_host': null,
    'agent.health_port': 8080,
    'agent.kube_burst': 100,
    'agent.kube_qps': 0,
    'agent.stack_concurrency': 10,
    'agent.adopt_from_agent_ids': [],
    'agent.apply_concurrency': 8,
    'agent.deployment_health_enabled': true,
    'agent.deployment_health_interval': 60,
    'agent.drift_fight_seconds': 600,
    'agent.gone_wait_seconds': 5,
    'agent.grants': {},
    'agent.identities': {},
    'agent.identities_required': false,
    'agent.preset': 'standard',
    'agent.prune_guard_count': 5,
    'agent.prune_guard_percent': 20,
    'agent.require_signatures': false,
    'agent.signature_keys': {},
    'agent.verify_interval': 3600,
    'agent.watch_namespace': null,
    'agent.kube_in_flight': 32,
    'agent.dry_run': true,
    'agent.field_validation': 'Strict',
    'agent.crd_wait_seconds': 60,
    'agent.retry_max_seconds': 300,
    'agent.attempt_seconds': 900,
    'agent.resync_interval': 600,
    'agent.allowed_namespaces': [],
    'agent.denied_kinds': [],
    'agent.protected_namespaces': [],
    'agent.adoption': 'unowned',
    'agent.save_manifests': true,
    'agent.shutdown_seconds': 20,
    'log.level': 'info',
    'log.format': 'json',
  })
})

test.each([
  ['https anywhere', 'https://brokkr.example.com/path', 'false', true],
  ['plain HTTP to this machine', 'http://127.0.0.1:3000', 'false', true],
  ['plain HTTP to this machine by name', 'http://localhost:3000', 'false', true],
  ['plain HTTP to this machine, six', 'http://[::1]:3000', 'false', true],
  ['plain HTTP to the network', 'http://brokkr.example.com', 'false', false],
  ['plain HTTP to a name that only begins like this machine', 'http://localhost.example.com', 'false', false],
  ['plain HTTP to the network, by the operator’s word', 'http://brokkr.example.com', 'true', true],
  ['a key in the address', 'https://user:pw@brokkr.example.com', 'false', false],
  ['another scheme', 'ftp://brokkr.example.com', 'false', false],
])('broker_url: %s', async (_what, url, insecure, isGood) => {
  const loaded = load({ BROKKR__AGENT__BROKER_URL: url, BROKKR__AGENT__INSECURE_HTTP: insecure })
  if (isGood) expect((await loaded).value.agent.broker_url).toBe(url)
  else await expect(loaded).rejects.toBeInstanceOf(ConfigError)
})

test('grants and identities require a generator id and reject a name', async () => {
  const id = '0c000000-0000-4000-8000-000000000001'
  const given = (key: string) => ({
    BROKKR__AGENT__GRANTS: JSON.stringify({ [key]: ['rbac'] }),
    BROKKR__AGENT__IDENTITIES: JSON.stringify({ [key]: 'ns/account' }),
  })
  for (const key of [id, '__work_orders__']) expect((await load(given(key))).value.agent.grants).toEqual({ [key]: ['rbac'] })
  for (const key of ['__system__', id.toUpperCase()]) await expect(load(given(key))).rejects.toThrow('must be the id of a generator')
})

test('the configuration error lists every problem and omits the PAK', async () => {
  const text = await loadConfig({
    table: agentTable,
    env: { BROKKR__AGENT__HEALTH_PORT: '99999', BROKKR__AGENT__PAKK: 'canary' },
    check: checkAgentConfig,
  }).then(
    () => 'loaded',
    (thrown: Error) => thrown.message,
  )
  for (const word of ['agent.broker_url', 'agent.agent_name', 'agent.cluster_name', 'agent.pak', 'agent.health_port'])
    expect(text).toContain(word)
  expect(text).not.toContain('canary')
})

test('each setting is declared once, and the version is that of the package', () => {
  const paths = listSettings(agentTable).map(({ path }) => path)
  expect(new Set(paths).size).toBe(paths.length)
  const { version: packaged } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
  expect(version).toBe(packaged)
})
