// Who we are: opens the way to the broker, lets it tell whose key we hold, and compares that with our configuration. A broker
// that is away is asked again; a key that belongs to somebody else ends the start, because acting on it would be wrong.
import { Agent } from '@brokkr/contract/agent.ts'
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, Terminal, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { z } from 'zod'
import { type BrokerHttp, openBrokerHttp } from './broker-http.ts'
import type { AgentConfig } from './config.ts'
import { version } from './version.ts'
import type { Answered } from './vouch.ts'

export interface Session {
  readonly agentId: AgentId
  readonly broker: BrokerHttp
}

export const openBroker = (
  { agent }: AgentConfig,
  { pak, onAnswer }: { pak: () => string; onAnswer: (answered: Answered) => void },
): Promise<BrokerHttp> =>
  openBrokerHttp({
    url: agent.broker_url,
    userAgent: `brokkr-agent/${version}`,
    timeoutMs: agent.request_timeout * 1000,
    pak,
    onAnswer,
    caFile: agent.ca_file,
    serverName: agent.server_name,
    pin: agent.pin,
    client: agent.client_cert === null || agent.client_key === null ? null : { certFile: agent.client_cert, keyFile: agent.client_key },
  })

export interface SignInDeps {
  readonly broker: Pick<BrokerHttp, 'client'>
  readonly clock: Clock
  readonly log: Log
  /** Told why we are not in yet; for readiness. */
  readonly onWaiting: (why: string) => void
  /** Asked before each try: joins, or finds the key that counts. */
  readonly prepare?: (signal: AbortSignal) => Promise<void>
  /** Ends a wait early: another key has come. */
  readonly onKey?: (listener: () => void) => void
}
export interface SignedIn {
  readonly agentId: AgentId
  readonly status: string
}

const retryMs = 1_000

/** Throws Terminal when trying on is useless: a foreign key, another agent's name, or `triesMax` tries without an answer. */
export async function signIn(deps: SignInDeps, { agent }: AgentConfig, triesMax: number, signal: AbortSignal): Promise<SignedIn> {
  let nap = new AbortController()
  deps.onKey?.(() => nap.abort())
  for (let failures = 0; ; failures++) {
    try {
      await deps.prepare?.(signal)
      return await whoAmI(deps.broker.client, agent, signal)
    } catch (thrown) {
      signal.throwIfAborted()
      if (thrown instanceof Terminal && thrown.code === 'wrong_identity') throw thrown
      const isRefused = thrown instanceof ApiError && [400, 401, 403, 409, 422, 426].includes(thrown.status)
      if (!isRefused && failures >= triesMax) throw gaveUp(agent.broker_url, failures + 1, thrown)
      deps.onWaiting(isRefused ? `the broker refuses the key: ${errorText(thrown)}` : `the broker does not answer: ${errorText(thrown)}`)
      if (failures === 0) deps.log.warn(isRefused ? 'key refused' : 'broker not reachable yet', { error: toError(thrown) })
      nap = new AbortController()
      // A refused key is renewed by a person, not by asking more often.
      const pauseMs = isRefused ? agent.refused_retry_seconds * 1000 : retryMs
      await deps.clock.sleep(pauseMs, AbortSignal.any([signal, nap.signal])).catch(() => signal.throwIfAborted())
    }
  }
}

/** A page of somebody in front of the broker is no word about us. */
const Verified = z.object({ agent: Agent.shape.id.nullable() })
const Named = Agent.pick({ id: true, name: true, cluster_name: true, status: true })

async function whoAmI(client: Client, expected: AgentConfig['agent'], signal: AbortSignal): Promise<SignedIn> {
  const { agent: id } = Verified.parse(await client.verifyPak({}, { signal }))
  if (id === null)
    throw new Terminal(`the key of agent.pak is not an agent's key: create an agent in the broker and use the key it shows`, {
      code: 'wrong_identity',
    })
  const named = await ourName(client, id, expected, signal)
  if (named.id === id) return { agentId: id, status: named.status }
  throw new Terminal(
    `the key of agent.pak belongs to agent ${named.name} of cluster ${named.cluster_name}, but the configuration says ${expected.agent_name} of ${expected.cluster_name}: use the right key, or mend agent.agent_name and agent.cluster_name`,
    { code: 'wrong_identity' },
  )
}

/** The agent of the configured name; where there is none, or it is not ours to see, the one that the key belongs to. */
async function ourName(client: Client, id: AgentId, { agent_name: name, cluster_name }: AgentConfig['agent'], signal: AbortSignal) {
  try {
    return Named.parse(await client.searchAgent({ query: { name, cluster_name } }, { signal }))
  } catch (error) {
    const isUnseen = error instanceof ApiError && (error.code === 'agent_not_found' || error.status === 403)
    if (!isUnseen) throw error
    const own = Named.parse(await client.getAgent({ params: { id } }, { signal }))
    // The name is ours and yet not found: only the broker can explain that, so it is asked again.
    if (own.name === name && own.cluster_name === cluster_name) throw error
    return { ...own, id: 'another' as AgentId }
  }
}

const gaveUp = (url: string, tries: number, cause: unknown): Terminal =>
  new Terminal(`the broker at ${url} did not answer in ${tries} tries: ${errorText(cause)}. Check agent.broker_url and the network`, {
    cause,
  })
