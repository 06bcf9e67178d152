import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { agentTable, checkAgentConfig } from '../config.ts'
import { type Answering, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { signIn } from './sign-in.ts'

const id = '0a000000-0000-4000-8000-000000000001'
const env = {
  BROKKR__AGENT__BROKER_URL: 'http://127.0.0.1:1',
  BROKKR__AGENT__AGENT_NAME: 'edge',
  BROKKR__AGENT__CLUSTER_NAME: 'berlin',
  BROKKR__AGENT__PAK: 'brokkr_BRtest_key',
  BROKKR__AGENT__MAX_RETRIES: '3',
}
const known: Answering = (_request, response, url) =>
  url.pathname.endsWith('/auth/pak')
    ? json(response, 200, { admin: false, agent: id, generator: null, readonly: false })
    : json(response, 200, { id, name: 'edge', cluster_name: 'berlin', status: 'ACTIVE' })

async function signingIn(answer: Answering) {
  const server = await scriptedBroker(answer)
  const { value: config } = await loadConfig({ table: agentTable, env, check: checkAgentConfig })
  const clock = manualClock()
  const waits: string[] = []
  const stopping = new AbortController()
  const deps = { broker: await server.connect(), clock, log: silentLog, onWaiting: (why: string) => void waits.push(why) }
  const result = signIn(deps, config, config.agent.max_retries, stopping.signal).then(
    (session) => session.agentId,
    (error: Error) => error.message,
  )
  return { server, clock, waits, result, stop: () => stopping.abort(new Error('stopped')) }
}

test('the PAK identifies the agent, and the record of the broker must match', async () => {
  const { result, server } = await signingIn(known)
  expect(await result).toBe(id)
  expect(server.requests.map(({ method, url }) => `${method} ${url.pathname}`)).toEqual(['POST /api/v1/auth/pak', 'GET /api/v1/agents/'])
})

test.each([
  ['a PAK that is not of an agent', { admin: true, agent: null }, {}, 'is not the PAK of an agent'],
  ['another name', { agent: id }, { name: 'other', cluster_name: 'berlin' }, 'belongs to agent other of cluster berlin'],
  ['another cluster', { agent: id }, { name: 'edge', cluster_name: 'paris' }, 'but the configuration names edge of berlin'],
])('%s ends the start', async (_what, pak, agent, message) => {
  const { result } = await signingIn((_request, response, url) => {
    if (url.pathname.endsWith('/auth/pak')) return json(response, 200, pak)
    if (url.pathname.endsWith('/agents/')) return json(response, 404, { code: 'agent_not_found', message: 'no such agent' })
    return json(response, 200, { id, status: 'ACTIVE', ...agent })
  })
  expect(await result).toContain(message)
})

/** Moves time on until the promise settles. */
async function settled<T>(result: Promise<T>, clock: ReturnType<typeof manualClock>): Promise<T> {
  const stop = new AbortController()
  void result.finally(() => stop.abort())
  while (!stop.signal.aborted) {
    await clock.advance(500)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  return result
}

test('an unreachable broker is retried up to the configured number of attempts', async () => {
  const { result, clock, server, waits } = await signingIn((_request, response) => json(response, 503, {}))
  expect(await settled(result, clock)).toContain('did not respond after 4 attempts')
  expect(server.requests.length).toBe(4)
  expect(waits[0]).toContain('does not respond')
})

test('a rejected PAK is retried', async () => {
  const { result, clock, server, waits } = await signingIn((_request, response) => {
    if (server.requests.length < 8) response.writeHead(401).end()
    else known(_request, response, server.requests.at(-1)!.url)
  })
  expect(await settled(result, clock)).toBe(id)
  expect(waits[0]).toContain('the broker rejected the PAK')
})
