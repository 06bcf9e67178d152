// Everything of the agent behind the stream, in this process, on a real cluster: frames come from the test, requests go through a
// recorder, reports stay in the outbox until the test takes them.

import type { Frame, StackReport } from '@brokkr/contract/feed/stream.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { type Log, silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { FrameProcessor } from '../connection/frame-processor.ts'
import { SyncState } from '../desired-state/sync-state.ts'
import { agentMetrics } from '../metrics.ts'
import { listAllowedNamespaces } from '../policy/policy.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { DriftWatch } from '../reconcile/drift/drift-watch.ts'
import { StackController } from '../reconcile/stack-controller.ts'
import { Outbox } from '../reporting/outbox.ts'
import { begin, end, hello, stackId } from './frames.ts'
import type { ReconcileWorld } from './reconcile-world.ts'

export interface AgentOptions {
  readonly settings?: Partial<ReconcileDeps['settings']>
  readonly log?: Log
  readonly fightMs?: number
  readonly retryBaseMs?: number
  readonly retryMaxMs?: number
  readonly concurrency?: number
}
export type AgentWorld = Awaited<ReturnType<typeof startAgentWorld>>

export async function startAgentWorld(world: ReconcileWorld, options: AgentOptions = {}) {
  const map = new SyncState()
  const numbers = createMetrics()
  const log = options.log ?? silentLog
  const fresh = world.restarted()
  const deps = { ...fresh, settings: { ...fresh.settings, ...options.settings }, metrics: agentMetrics(numbers) }
  const { metrics } = deps
  const outbox = new Outbox({ metrics })
  const ended: StackId[] = []
  const { kube, members, verifiedVersions } = deps
  const namespaces = () => listAllowedNamespaces(deps.settings.policy)
  const drift = new DriftWatch({ kube, clock, log, members, verifiedVersions, namespaces }, world.agentId)
  const controller = new StackController(
    {
      state: map,
      drift,
      reconcile: deps,
      permit: { refusal: null },
      epochRecord: { orphans: new Set(), save: () => Promise.resolve() },
      outbox,
      agentId: world.agentId as never,
      clock,
      log,
      metrics,
      conflictWindowMs: () => options.fightMs ?? 600_000,
    },
    {
      concurrency: () => options.concurrency ?? 10,
      attemptMs: () => 120_000,
      retryMaxMs: () => options.retryMaxMs ?? 1_000,
      retryBaseMs: options.retryBaseMs ?? 1_000,
    },
  )
  for (const found of await deps.parents.all(AbortSignal.timeout(30_000))) {
    deps.members.set(found.stackId, found.parent.set.members)
    if (found.parent.state) controller.setApplied(found.stackId as StackId, found.parent.state)
  }
  controller.onAttemptEnd((id) => void ended.push(id))
  drift.onCandidate((id, key) => controller.addDriftCandidate(id as StackId, key))
  drift.start()
  controller.start()
  const tell = (...frames: readonly Frame[]) => {
    const connection = new FrameProcessor(map)
    for (const effect of frames.flatMap((frame) => connection.process(frame))) {
      if (effect.do === 'reconcile') controller.reconcile(effect.stackId)
      if (effect.do === 'verified') controller.applySnapshot(effect.snapshot)
    }
  }
  const history: NewAgentEvent[] = []
  /** All events so far; takes new ones out of the outbox. */
  function events(type?: string): NewAgentEvent[] {
    for (const event of outbox.allEvents()) {
      history.push(event)
      outbox.eventDone(event)
    }
    return history.filter(({ event_type }) => type === undefined || event_type === type)
  }
  const rowOf = (n: number): StackReport | undefined => outbox.nextRows(1000).find(({ stack_id }) => stack_id === stackId(n))
  return {
    map,
    deps,
    outbox,
    controller,
    ended,
    tell,
    events,
    rowOf,
    list: (...frames: Parameters<typeof end>[0]) => tell(hello(), begin(), ...frames, end(frames)),
    live: (...frames: readonly Frame[]) => tell(hello({ mode: 'resume' }), ...frames),
    reported: (n: number, phase: string, rev: number, code?: string | null) =>
      waitFor(
        `stack ${n} to be ${phase} ${code ?? ''} at rev ${rev}`,
        () => {
          const row = rowOf(n)
          const isIt = row?.phase === phase && row.rev === rev && (code === undefined || (row.code ?? null) === code)
          return isIt ? row : undefined
        },
        { limitMs: 60_000, onTimeout: () => JSON.stringify(outbox.nextRows(10)) },
      ),
    event: (type: string, is: (event: NewAgentEvent) => boolean = () => true) =>
      waitFor(`event ${type}`, () => events(type).find(is), { limitMs: 60_000, onTimeout: () => JSON.stringify(history.slice(-5)) }),
    drift,
    metricsText: () => numbers.text(),
    drifts: async (result: string) =>
      Number(/\S+$/.exec((await numbers.text()).split('\n').find((line) => line.includes(`drift_total{result="${result}"}`)) ?? '0')?.[0]),
    stop: async () => {
      await controller.stop()
      await drift.stop()
    },
  }
}

export const manifest = (...objects: readonly object[]): string => objects.map((each) => JSON.stringify(each)).join('\n---\n')
