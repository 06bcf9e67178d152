// Composition root of the agent's identity: PAK, sign-in and write permit. If the cluster stores the identity and stacks of an earlier
// run, the agent starts before the broker responds; otherwise it waits for the sign-in.
import type { KeyObject } from 'node:crypto'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { type Election, ID_LABEL, type Kube, selectorOf } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import { retryUntilAvailable } from '../cluster.ts'
import type { AgentConfig } from '../config.ts'
import type { BrokerHttp } from '../connection/broker-http.ts'
import type { AgentMetrics } from '../metrics.ts'
import { createWriteControl, type WriteControl } from '../policy/create-write-control.ts'
import type { BrokerResponse } from '../policy/credential-status.ts'
import { ensureHashKey } from '../reconcile/agent-state.ts'
import { OWNER_LABEL } from '../reconcile/plan/ownership-metadata.ts'
import type { AgentConditions } from '../reporting/agent-conditions.ts'
import { AgentIdentityStore } from './agent-identity.ts'
import { createPakStore } from './own-pak.ts'
import { startPakLifecycle } from './pak-lifecycle.ts'
import { createPakProbe } from './pak-probe.ts'
import { AgentPaks } from './paks.ts'
import { createBrokerHttp, type SignInResult, signIn } from './sign-in.ts'

export interface SessionDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  /** Names the outbound proxy. */
  readonly env: NodeJS.ProcessEnv
  readonly conditions: AgentConditions
  readonly kube: Kube
  readonly election: Election
  readonly reload: () => Promise<AgentConfig>
  readonly fail: (error: Error) => void
}
export interface AgentSession extends Pick<WriteControl, 'permit' | 'onPermit'> {
  readonly agentId: AgentId
  readonly broker: BrokerHttp
  readonly paks: AgentPaks
  readonly hashKey: KeyObject
  readonly identity: AgentIdentityStore
  /** Resolves when the broker has confirmed the identity. */
  readonly signedIn: Promise<SignInResult>
}

export async function startSession(deps: SessionDeps, config: AgentConfig, namespace: string): Promise<AgentSession> {
  const { clock, log, lifecycle, conditions, election } = deps
  const { agent } = config
  const { signal } = lifecycle
  // The agent's own Secrets need the Lease only, not the write permit.
  const kube = deps.kube.with({ guard: () => election.assertHeld() })
  const whenAvailable = <T>(work: () => Promise<T>): Promise<T> => retryUntilAvailable(deps, work, signal)
  const hashKey = await whenAvailable(() => ensureHashKey({ kube }, namespace, signal))
  const name = { agent_name: agent.agent_name, cluster_name: agent.cluster_name }
  const identity = new AgentIdentityStore({ kube }, { namespace, name, signal })
  const storedIdentity = await whenAvailable(() => identity.read())
  const store = createPakStore({ kube }, namespace, signal)
  const paks = new AgentPaks(agent.pak?.reveal() ?? null)
  const storedPak = await whenAvailable(() => store.read())
  if (storedPak !== null && storedPak.sinceMs !== null) paks.setStored(storedPak)
  const { credentialStatus, permit, onPermit, onStatus } = createWriteControl(deps, {
    frozenAfterMs: () => agent.frozen_after_seconds * 1000,
    isObserver: agent.preset === 'observe',
  })
  const onResponse = (response: BrokerResponse) => credentialStatus.recordResponse(response)
  const broker = await createBrokerHttp(config, { pak: () => paks.current, env: deps.env, onResponse })
  lifecycle.onClose('broker', () => broker.close())
  onStatus((status) => {
    if (identity.facts === null) return
    identity.save({ status }).catch((error: unknown) => log.debug('agent identity not saved', { why: errorText(error) }))
  })
  const probe = createPakProbe(broker.client, () => identity.facts!.agent_id, signal)
  const { prepare, onRefused } = startPakLifecycle(
    { ...deps, kube, paks, store, probe, broker, reload: () => readCredentials(deps) },
    config,
  )
  credentialStatus.onRefused(onRefused)
  const signInAndSave = async (attemptsMax: number, onWaiting: (why: string) => void): Promise<SignInResult> => {
    const onNewPak = (listener: () => void) => paks.onChange(listener)
    const result = await signIn({ clock, log, onWaiting, broker, prepare, onNewPak }, config, attemptsMax, signal)
    await identity.save({ agent_id: result.agentId, status: result.status })
    conditions.setStatus(result.status)
    return result
  }
  if (storedIdentity !== null) conditions.setStatus(storedIdentity.status)
  const canStartOffline =
    storedIdentity !== null && paks.hasPak && (await whenAvailable(() => ownsStacks(kube, namespace, storedIdentity.agent_id, signal)))
  const first = canStartOffline ? null : await signInAndSave(agent.max_retries, deps.onWaiting)
  const signedIn = first === null ? signInAndSave(Number.POSITIVE_INFINITY, () => undefined) : Promise.resolve(first)
  const agentId = first?.agentId ?? storedIdentity!.agent_id
  failOnOtherIdentity(deps, signedIn, agentId)
  return { agentId, broker, paks, permit, onPermit, hashKey, identity, signedIn }
}

/** Read again with the settings, because their files may have changed. */
async function readCredentials(deps: SessionDeps): Promise<{ pak: string | null; joinToken: string | null }> {
  const { pak, join_token } = (await deps.reload()).agent
  return { pak: pak?.reveal() ?? null, joinToken: join_token?.reveal() ?? null }
}

async function ownsStacks(kube: Kube, namespace: string, agentId: string, signal: AbortSignal): Promise<boolean> {
  const labelSelector = `${selectorOf({ [OWNER_LABEL]: agentId })},${ID_LABEL}`
  const { items } = await kube.list({ apiVersion: 'v1', kind: 'Secret' }, { namespace, labelSelector, metadataOnly: true, signal })
  return items.length > 0
}

/** An agent that started offline with another agent's identity ends; the next process starts with the right one. */
function failOnOtherIdentity({ lifecycle, fail }: SessionDeps, signedIn: Promise<SignInResult>, agentId: AgentId): void {
  signedIn.then(
    (result) =>
      result.agentId === agentId ||
      fail(new Error(`the broker identifies this agent as ${result.agentId}, not as ${agentId}: restart to use the new identity`)),
    (error: unknown) => lifecycle.signal.aborted || fail(toError(error)),
  )
}
