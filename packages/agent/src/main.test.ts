import { freePort } from '@brokkr/local/free-ports.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { silentLog as log } from '@brokkr/runtime/log.ts'
import { cluster } from '@brokkr/testing/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { agentTable, checkAgentConfig } from './config.ts'
import { startAgent } from './main.ts'
import { type Answering, closeAfter, json, scriptedBroker } from './test-parts/scripted-broker.ts'

const id = '0c000000-0000-4000-8000-000000000001'

async function starting(answer: Answering, change: Record<string, string> = {}) {
  const at = await cluster({ controllers: false })
  const server = await scriptedBroker(answer)
  const port = await freePort()
  const env = {
    BROKKR__AGENT__BROKER_URL: server.url,
    BROKKR__AGENT__AGENT_NAME: 'edge',
    BROKKR__AGENT__CLUSTER_NAME: 'berlin',
    BROKKR__AGENT__PAK: 'brokkr_BRtest_key',
    BROKKR__AGENT__KUBECONFIG_PATH: at.kubeconfigPath,
    BROKKR__AGENT__NAMESPACE: await at.namespace('agent'),
    BROKKR__AGENT__HEALTH_PORT: String(port),
    ...change,
  }
  const changed: Record<string, string> = {}
  const load = async () => (await loadConfig({ table: agentTable, env: { ...env, ...changed }, check: checkAgentConfig })).value
  const lifecycle = createLifecycle({ log }, { graceMs: 10_000 })
  closeAfter(() => lifecycle.close('the test is over'))
  const started = startAgent(await load(), { log, lifecycle, env: {}, reload: load })
  started.catch(() => undefined)
  const probe = async (path: string) => {
    const answered = await fetch(`http://127.0.0.1:${port}${path}`)
    return `${answered.status} ${await answered.text()}`
  }
  return { at, server, started, lifecycle, probe, changed, namespace: env.BROKKR__AGENT__NAMESPACE }
}

const known: Answering = (_request, response, url) => {
  if (url.pathname.endsWith('/auth/pak')) json(response, 200, { admin: false, agent: id, generator: null, readonly: false })
  else if (url.pathname === '/api/v1/agents/') json(response, 200, { id, name: 'edge', cluster_name: 'berlin', status: 'ACTIVE' })
  else json(response, 503, {})
}

test('while the broker is away the process is alive, not ready, and says why; stopping ends the wait', async () => {
  const { probe, started, lifecycle } = await starting((_request, response) => json(response, 503, {}))
  await waitFor('the reason', async () => (await probe('/readyz')).includes('the broker does not answer'))
  expect(await probe('/healthz')).toBe('200 OK')
  expect(await probe('/readyz')).toMatch(/^503 /)
  await lifecycle.close('asked')
  await expect(started).rejects.toThrow('the program stops')
})

test('once signed in it is at work, also while every other request fails, and ends cleanly', async () => {
  const { probe, started, server, at, namespace } = await starting(known)
  const agent = await started
  expect(agent.agentId).toBe(id)
  expect(await probe('/readyz')).toBe('200 Ready')
  await waitFor('a heartbeat', () => server.requests.find(({ url }) => url.pathname.endsWith('/heartbeat')))
  await waitFor('a second try of the stream', () => server.requests.filter(({ url }) => url.pathname.endsWith('/stream')).length >= 2)
  const beat = server.requests.find(({ url }) => url.pathname.endsWith('/heartbeat'))
  expect(JSON.parse(beat?.body ?? '')).toMatchObject({
    k8s_reachable: true,
    k8s_api_latency_ms: expect.any(Number),
    k8s_version: expect.stringMatching(/^v1\./),
  })
  expect(await probe('/metrics')).toContain('brokkr_agent_stream_ends_total')
  const { json: secret } = await at.api('GET', `/api/v1/namespaces/${namespace}/secrets/brokkr-agent-state`)
  expect(Buffer.from((secret as { data: { hash_key: string } }).data.hash_key, 'base64').length).toBe(32)
  await agent.stop()
  await expect(probe('/healthz')).rejects.toThrow('fetch failed')
})

test('hot settings are followed without a restart: the interval of the heartbeat, and what it says of the policy', async () => {
  const { started, server, changed } = await starting(known)
  await started
  const beats = () => server.requests.filter(({ url }) => url.pathname.endsWith('/heartbeat')).map(({ body }) => body)
  await waitFor('a heartbeat', () => beats().length > 0)
  Object.assign(changed, { BROKKR__AGENT__POLLING_INTERVAL: '0.2', BROKKR__AGENT__ALLOWED_NAMESPACES: '["team-a"]' })
  const isNew = (body: string) => (JSON.parse(body) as { facts?: { policy: object } }).facts?.policy
  // The one of before came every half minute.
  const told = await waitFor('further heartbeats', () => (beats().length > 4 ? beats() : undefined), { limitMs: 25_000 })
  expect(isNew(told.at(-1) ?? '')).toMatchObject({ allowed_namespaces: ['team-a'] })
})

test('a key of another agent ends the start', async () => {
  const { started } = await starting((request, response, url) =>
    url.pathname.endsWith('/auth/pak')
      ? known(request, response, url)
      : json(response, 200, { id: id.replace('c', 'd'), name: 'edge', cluster_name: 'berlin', status: 'ACTIVE' }),
  )
  await expect(started).rejects.toMatchObject({ code: 'wrong_identity' })
})
