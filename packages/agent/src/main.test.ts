import type { ServerResponse } from 'node:http'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { agentTable, checkAgentConfig } from './config.ts'
import { startAgent } from './main.ts'
import { apiRecorder } from './test-parts/api-recorder.ts'
import { connectProxy } from './test-parts/connect-proxy.ts'
import { type Answering, closeAfter, json, scriptedBroker } from './test-parts/scripted-broker.ts'

const id = '0c000000-0000-4000-8000-000000000001'

async function starting(answer: Answering, change: Record<string, string> = {}, own: Record<string, string> = {}) {
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
  const started = startAgent(await load(), { log, lifecycle, env: own, reload: load })
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

test('the agent is alive and not ready, with a reason, while the broker is unreachable', async () => {
  const { probe, started, lifecycle } = await starting((_request, response) => json(response, 503, {}))
  await waitFor('the reason', async () => (await probe('/readyz')).includes('the broker does not respond'))
  expect(await probe('/healthz')).toBe('200 OK')
  expect(await probe('/readyz')).toMatch(/^503 /)
  await lifecycle.close('asked')
  await expect(started).rejects.toThrow('the program stops')
})

test('the agent keeps running while half of its requests fail', async () => {
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

test('a changed heartbeat interval and policy take effect without a restart', async () => {
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

test('an agent behind a proxy reaches a broker whose name only the proxy resolves', async () => {
  const target = { port: 0 }
  const proxy = await connectProxy(() => target.port)
  const { started, server } = await starting(
    known,
    { BROKKR__AGENT__BROKER_URL: 'http://broker.test:8080', BROKKR__AGENT__INSECURE_HTTP: 'true' },
    { ALL_PROXY: proxy.url },
  )
  target.port = Number(new URL(server.url).port)
  const agent = await started
  await waitFor('a heartbeat', () => server.requests.find(({ url }) => url.pathname.endsWith('/heartbeat')))
  expect(new Set(proxy.connects.map(({ to }) => to))).toEqual(new Set(['broker.test:8080']))
  await agent.stop()
})

test('Events and Pods are watched only after the broker accepts telemetry', async () => {
  const recorder = await apiRecorder(await cluster({ controllers: false }))
  const asked = Promise.withResolvers<ServerResponse>()
  const { started } = await starting(
    (request, response, url) => (url.pathname.endsWith('/telemetry') ? asked.resolve(response) : known(request, response, url)),
    { BROKKR__AGENT__KUBECONFIG_PATH: recorder.kubeconfigPath, BROKKR__AGENT__TELEMETRY_INTERVAL: '0.1' },
  )
  const agent = await started
  const watched = () => recorder.requests.filter(({ path }) => /^\/api\/v1\/(events|pods)$/.test(path)).map(({ path }) => path)
  const question = await asked.promise
  expect(watched()).toEqual([])
  json(question, 202, { accepted: 0, refused: 0 })
  await waitFor('both watches', () => new Set(watched()).size === 2, { limitMs: 60_000 })
  await agent.stop()
}, 120_000)

test('a PAK of another agent ends the start', async () => {
  const { started } = await starting((request, response, url) =>
    url.pathname.endsWith('/auth/pak')
      ? known(request, response, url)
      : json(response, 200, { id: id.replace('c', 'd'), name: 'edge', cluster_name: 'berlin', status: 'ACTIVE' }),
  )
  await expect(started).rejects.toMatchObject({ code: 'wrong_identity' })
})
