// The agent's standing with its broker: the key, who we are, whether we may write. Where the cluster remembers us and our stacks,
// work begins before the broker has answered; otherwise it is waited for.
import type { KeyObject } from 'node:crypto'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { ID_LABEL } from '@brokkr/kube/applyset.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { Election } from '@brokkr/kube/lease.ts'
import { selectorOf } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { BrokerHttp } from './broker-http.ts'
import { untilClusterAnswers } from './cluster.ts'
import type { AgentConfig } from './config.ts'
import { keyJudge } from './key-judge.ts'
import { Keys } from './keys.ts'
import type { Standing } from './loops/standing.ts'
import type { AgentMetrics } from './metrics.ts'
import { openKeys } from './open-keys.ts'
import { type OpenPermit, openPermit } from './open-permit.ts'
import { keyStore } from './own-key.ts'
import { OwnRecord } from './own-record.ts'
import { ensureHashKey } from './reconcile/agent-state.ts'
import { OWNER_LABEL } from './reconcile/marks.ts'
import { openBroker, type SignedIn, signIn } from './session.ts'

export interface SessionDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly standing: Standing
  readonly kube: Kube
  readonly election: Election
  readonly reload: () => Promise<AgentConfig>
  readonly fail: (error: Error) => void
}
export interface AgentSession extends Pick<OpenPermit, 'permit' | 'onPermit'> {
  readonly agentId: AgentId
  readonly broker: BrokerHttp
  readonly keys: Keys
  readonly hashKey: KeyObject
  readonly own: OwnRecord
  /** Resolves when the broker has confirmed who we are. */
  readonly signedIn: Promise<SignedIn>
}

export async function startSession(deps: SessionDeps, config: AgentConfig, namespace: string): Promise<AgentSession> {
  const { clock, log, lifecycle, standing, election } = deps
  const { agent } = config
  const { signal } = lifecycle
  // Our own Secrets are written whether or not the cluster may be; the Lease alone decides.
  const kube = deps.kube.with({ guard: () => election.assertHeld() })
  const answered = <T>(work: () => Promise<T>): Promise<T> => untilClusterAnswers(deps, work, signal)
  const hashKey = await answered(() => ensureHashKey({ kube }, namespace, signal))
  const name = { agent_name: agent.agent_name, cluster_name: agent.cluster_name }
  const own = new OwnRecord({ kube }, { namespace, name, signal })
  const known = await answered(() => own.read())
  const store = keyStore({ kube }, namespace, signal)
  const keys = new Keys(agent.pak?.reveal() ?? null)
  const kept = await answered(() => store.read())
  if (kept !== null && kept.sinceMs !== null) keys.keep(kept)
  const { vouch, permit, onPermit, onStatus } = openPermit(deps, {
    frozenAfterMs: () => agent.frozen_after_seconds * 1000,
    isObserver: agent.preset === 'observe',
  })
  const broker = await openBroker(config, { pak: () => keys.current, onAnswer: (answer) => vouch.heard(answer) })
  lifecycle.onClose('broker', () => broker.close())
  onStatus((status) => {
    if (own.facts === null) return
    own.save({ status }).catch((error: unknown) => log.debug('own record not saved', { why: errorText(error) }))
  })
  const judge = keyJudge(broker.client, () => own.facts!.agent_id, signal)
  const reload = async () => {
    const { pak, join_token } = (await deps.reload()).agent
    return { pak: pak?.reveal() ?? null, joinToken: join_token?.reveal() ?? null }
  }
  const prepare = openKeys({ ...deps, kube, keys, store, judge, broker, reload }, config)
  const signing = async (triesMax: number, onWaiting: (why: string) => void): Promise<SignedIn> => {
    const onKey = (listener: () => void) => keys.onChange(listener)
    const signed = await signIn({ clock, log, onWaiting, broker, prepare, onKey }, config, triesMax, signal)
    await own.save({ agent_id: signed.agentId, status: signed.status })
    standing.called(signed.status)
    return signed
  }
  if (known !== null) standing.called(known.status)
  const isRemembered = known !== null && keys.has && (await answered(() => ownsStacks(kube, namespace, known.agent_id, signal)))
  const first = isRemembered ? null : await signing(agent.max_retries, deps.onWaiting)
  const signedIn = first === null ? signing(Number.POSITIVE_INFINITY, () => undefined) : Promise.resolve(first)
  const agentId = first?.agentId ?? known!.agent_id
  watchSignIn(deps, signedIn, agentId)
  return { agentId, broker, keys, permit, onPermit, hashKey, own, signedIn }
}

async function ownsStacks(kube: Kube, namespace: string, agentId: string, signal: AbortSignal): Promise<boolean> {
  const labelSelector = `${selectorOf({ [OWNER_LABEL]: agentId })},${ID_LABEL}`
  const { items } = await kube.list({ apiVersion: 'v1', kind: 'Secret' }, { namespace, labelSelector, metadataOnly: true, signal })
  return items.length > 0
}

/** What is at work already may turn out to be somebody else's: then this process ends, and the next one begins as who it is. */
function watchSignIn({ lifecycle, fail }: SessionDeps, signedIn: Promise<SignedIn>, agentId: AgentId): void {
  signedIn.then(
    (signed) =>
      signed.agentId === agentId ||
      fail(new Error(`the broker knows this agent as ${signed.agentId} now, not as ${agentId}: starting again`)),
    (error: unknown) => lifecycle.signal.aborted || fail(toError(error)),
  )
}
