// Signs in: reads the identity of the PAK from the broker and compares it with the configuration. Retries while the broker is
// unreachable; a PAK of another agent ends the start.
import { Agent } from '@brokkr/contract/agents/agent.ts'
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, Terminal, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { z } from 'zod'
import type { AgentConfig } from '../config.ts'
import { type BrokerHttp, openBrokerHttp } from '../connection/broker-http.ts'
import type { ProxyEnv } from '../connection/broker-proxy.ts'
import type { BrokerResponse } from '../policy/credential-status.ts'
import { version } from '../version.ts'

export interface Session {
  readonly agentId: AgentId
  readonly broker: BrokerHttp
}

export const createBrokerHttp = (
  { agent }: AgentConfig,
  { pak, env, onResponse }: { pak: () => string; env: ProxyEnv; onResponse: (answered: BrokerResponse) => void },
): Promise<BrokerHttp> =>
  openBrokerHttp({
    url: agent.broker_url,
    userAgent: `brokkr-agent/${version}`,
    timeoutMs: agent.request_timeout * 1000,
    pak,
    env,
    onResponse,
    caFile: agent.ca_file,
    serverName: agent.server_name,
    pin: agent.pin,
    client: agent.client_cert === null || agent.client_key === null ? null : { certFile: agent.client_cert, keyFile: agent.client_key },
  })

export interface SignInDeps {
  readonly broker: Pick<BrokerHttp, 'client'>
  readonly clock: Clock
  readonly log: Log
  /** Receives the reason of the wait, for readiness. */
  readonly onWaiting: (reason: string) => void
  /** Called before each attempt: joins, or chooses the valid PAK. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>
  /** Ends a pause early after a new PAK. */
  readonly onNewPak?: (listener: () => void) => void
}
export interface SignInResult {
  readonly agentId: AgentId
  readonly status: string
}

const retryMs = 1_000

/** Throws Terminal if retries are useless: a PAK of another agent, another name, or `attemptsMax` failed attempts. */
export async function signIn(deps: SignInDeps, { agent }: AgentConfig, attemptsMax: number, signal: AbortSignal): Promise<SignInResult> {
  let pause = new AbortController()
  deps.onNewPak?.(() => pause.abort())
  for (let failures = 0; ; failures++) {
    try {
      await deps.prepare?.(signal)
      return await readIdentity(deps.broker.client, agent, signal)
    } catch (thrown) {
      signal.throwIfAborted()
      if (thrown instanceof Terminal && thrown.code === 'wrong_identity') throw thrown
      const isRefused = thrown instanceof ApiError && [400, 401, 403, 409, 422, 426].includes(thrown.status)
      if (!isRefused && failures >= attemptsMax) throw toUnreachableError(agent.broker_url, failures + 1, thrown)
      deps.onWaiting(isRefused ? `the broker rejected the PAK: ${errorText(thrown)}` : `the broker does not respond: ${errorText(thrown)}`)
      if (failures === 0) deps.log.warn(isRefused ? 'PAK rejected' : 'broker unreachable', { error: toError(thrown) })
      pause = new AbortController()
      // An admin must renew a rejected PAK; more frequent attempts do not help.
      const pauseMs = isRefused ? agent.refused_retry_seconds * 1000 : retryMs
      await deps.clock.sleep(pauseMs, AbortSignal.any([signal, pause.signal])).catch(() => signal.throwIfAborted())
    }
  }
}

/** Strict schemas: the page of an intermediary must not pass as a response. */
const VerifyPakResponse = z.object({ agent: Agent.shape.id.nullable() })
const AgentSummary = Agent.pick({ id: true, name: true, cluster_name: true, status: true })

async function readIdentity(client: Client, expected: AgentConfig['agent'], signal: AbortSignal): Promise<SignInResult> {
  const { agent: id } = VerifyPakResponse.parse(await client.verifyPak({}, { signal }))
  if (id === null)
    throw new Terminal('agent.pak is not the PAK of an agent: create an agent and use its PAK', {
      code: 'wrong_identity',
    })
  const { agent, isMatch } = await findConfiguredAgent(client, id, expected, signal)
  if (isMatch) return { agentId: id, status: agent.status }
  throw new Terminal(
    `agent.pak belongs to agent ${agent.name} of cluster ${agent.cluster_name}, but the configuration names ${expected.agent_name} of ${expected.cluster_name}: use the PAK of that agent, or correct agent.agent_name and agent.cluster_name`,
    { code: 'wrong_identity' },
  )
}

/** Finds the agent of the configured name; if it does not exist or is not visible, the agent of the PAK. `isMatch`: both are the same. */
async function findConfiguredAgent(
  client: Client,
  id: AgentId,
  { agent_name: name, cluster_name }: AgentConfig['agent'],
  signal: AbortSignal,
) {
  try {
    const agent = AgentSummary.parse(await client.searchAgent({ query: { name, cluster_name } }, { signal }))
    return { agent, isMatch: agent.id === id }
  } catch (error) {
    const isNotVisible = error instanceof ApiError && (error.code === 'agent_not_found' || error.status === 403)
    if (!isNotVisible) throw error
    const ownAgent = AgentSummary.parse(await client.getAgent({ params: { id } }, { signal }))
    // The search did not find an agent that exists under this name. Retries, because the configuration is correct.
    if (ownAgent.name === name && ownAgent.cluster_name === cluster_name) throw error
    return { agent: ownAgent, isMatch: false }
  }
}

const toUnreachableError = (url: string, attempts: number, cause: unknown): Terminal =>
  new Terminal(
    `the broker at ${url} did not respond after ${attempts} attempts: ${errorText(cause)}. Check agent.broker_url and the network`,
    {
      cause,
    },
  )
