// Who we are: opens the way to the broker, lets it tell whose key we hold, and compares that with our configuration. A broker
// that is away is asked again; a key that belongs to somebody else ends the start, because acting on it would be wrong.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, Terminal, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type BrokerHttp, openBrokerHttp } from './broker-http.ts'
import type { AgentConfig } from './config.ts'
import { version } from './version.ts'

export interface Session {
  readonly agentId: AgentId
  readonly broker: BrokerHttp
}

export const openBroker = ({ agent }: AgentConfig): Promise<BrokerHttp> =>
  openBrokerHttp({
    url: agent.broker_url,
    userAgent: `brokkr-agent/${version}`,
    timeoutMs: agent.request_timeout * 1000,
    pak: () => agent.pak.reveal(),
    caFile: agent.ca_file,
    serverName: agent.server_name,
  })

export interface SignInDeps {
  readonly broker: BrokerHttp
  readonly clock: Clock
  readonly log: Log
  /** Told why we are not in yet; for readiness. */
  readonly onWaiting: (why: string) => void
}

const retryMs = 1_000
/** A refused key is renewed by a person, not by asking more often. */
const refusedRetryMs = 60_000

/** Throws Terminal when trying on is useless: a foreign key, another agent's name, or `max_retries` tries without an answer. */
export async function signIn(deps: SignInDeps, { agent }: AgentConfig, signal: AbortSignal): Promise<Session> {
  for (let failures = 0; ; failures++) {
    try {
      return { broker: deps.broker, agentId: await whoAmI(deps.broker.client, agent, signal) }
    } catch (thrown) {
      signal.throwIfAborted()
      if (thrown instanceof Terminal) throw thrown
      const isRefused = thrown instanceof ApiError && (thrown.status === 401 || thrown.status === 403)
      if (!isRefused && failures >= agent.max_retries) throw gaveUp(agent.broker_url, failures + 1, thrown)
      deps.onWaiting(isRefused ? 'the broker refuses the key' : `the broker does not answer: ${errorText(thrown)}`)
      if (failures === 0) deps.log.warn(isRefused ? 'key refused' : 'broker not reachable yet', { error: toError(thrown) })
      await deps.clock.sleep(isRefused ? refusedRetryMs : retryMs, signal)
    }
  }
}

async function whoAmI(client: Client, expected: AgentConfig['agent'], signal: AbortSignal): Promise<AgentId> {
  const { agent: id } = await client.verifyPak({}, { signal })
  if (id === null)
    throw new Terminal(`the key of agent.pak is not an agent's key: create an agent in the broker and use the key it shows`, {
      code: 'wrong_identity',
    })
  const { name, cluster_name } = await client.getAgent({ params: { id } }, { signal })
  if (name === expected.agent_name && cluster_name === expected.cluster_name) return id
  throw new Terminal(
    `the key of agent.pak belongs to agent ${name} of cluster ${cluster_name}, but the configuration says ${expected.agent_name} of ${expected.cluster_name}: use the right key, or mend agent.agent_name and agent.cluster_name`,
    { code: 'wrong_identity' },
  )
}

const gaveUp = (url: string, tries: number, cause: unknown): Terminal =>
  new Terminal(`the broker at ${url} did not answer in ${tries} tries: ${errorText(cause)}. Check agent.broker_url and the network`, {
    cause,
  })
