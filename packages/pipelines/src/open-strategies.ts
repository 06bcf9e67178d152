// The strategies of the program with what they need: cache repositories and outbound clients. The first that handles a spec is used.
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Allow, allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { PipelinesConfig } from './config.ts'
import { ForgeAnswers } from './forges/forge-answers.ts'
import { openGitRepositories } from './git/repositories.ts'
import { type BrokerClients, createBrokerClients } from './stacks/broker-clients.ts'
import { notificationStrategy } from './strategies/notification.ts'
import { pullRequestStrategy } from './strategies/pull-request.ts'
import { stackStrategy } from './strategies/stack.ts'
import type { Strategy } from './strategies/strategy.ts'

export interface OpenStrategies {
  readonly list: readonly Strategy[]
  readonly brokers: BrokerClients
  close(): Promise<void>
}

/** The operator names these addresses, so they may be anywhere. */
const anyAddress: Allow = { cidrs: ['0.0.0.0/0', '::/0'] }

export async function openStrategies(
  { pipelines }: PipelinesConfig,
  deps: { kube: Kube; clock: Clock; env: NodeJS.ProcessEnv; metrics: Metrics },
): Promise<OpenStrategies> {
  const { kube, clock, env, metrics } = deps
  const forgeRequests = metrics.counter('forge_requests_total', 'Answers of forges by status', ['forge', 'code'])
  const gitSeconds = metrics.histogram('git_seconds', 'Seconds of a run of git, by command', ['op'])
  const allowInsecure = pipelines.allow_insecure_git
  const git = await openGitRepositories(
    {
      cacheDir: pipelines.git_cache_dir,
      timeoutMs: pipelines.git_timeout * 1000,
      bytesMax: pipelines.git_max_bytes,
      allowInsecure,
    },
    { onRun: (op, seconds) => gitSeconds.observe({ op }, seconds) },
  )
  const operatorOutbound = createOutbound({}, { allow: anyAddress })
  const openOutbound = (caPem: string | null) =>
    createOutbound({}, { allow: allowInsecure ? anyAddress : allowPrivateNetworks, ca: caPem === null ? [] : [caPem], env })
  const userOutbound = openOutbound(null)
  const brokers = createBrokerClients({ operators: operatorOutbound, users: userOutbound })
  const events = pipelines.events_addr === null ? null : { url: pipelines.events_addr, outbound: operatorOutbound }
  return {
    brokers,
    list: [
      pullRequestStrategy({
        git,
        clock,
        openOutbound,
        answers: new ForgeAnswers(),
        onForgeAnswer: (forge, code) => forgeRequests.inc({ forge, code: String(code) }),
        settings: { allowInsecure, allowedHosts: pipelines.git_allowed_hosts },
      }),
      notificationStrategy({ kube, clock, events }),
      stackStrategy({ brokers, brokerUrl: pipelines.broker_url }),
    ],
    async close() {
      await Promise.all([operatorOutbound.close(), userOutbound.close()])
      await git.close()
    },
  }
}
