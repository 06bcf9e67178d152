// An agent under constant drift, as a process of its own with a heap that can be collected on demand. Frames come from here; every
// second it tells its parent how large everything is that could grow.

import { loadKubeconfig, openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { FrameProcessor } from '../connection/frame-processor.ts'
import { SyncState } from '../desired-state/sync-state.ts'
import { agentMetrics } from '../metrics.ts'
import { ensureHashKey } from '../reconcile/agent-state.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { DriftWatch } from '../reconcile/drift/drift-watch.ts'
import { VerifiedVersions } from '../reconcile/drift/verified-versions.ts'
import { MemberIndex } from '../reconcile/member-index.ts'
import { PruneApprovals } from '../reconcile/prune/prune-approvals.ts'
import { StackController } from '../reconcile/stack-controller.ts'
import { StackGenerators } from '../reconcile/stack-generators.ts'
import { StackParents } from '../reconcile/stack-parents.ts'
import { Outbox } from '../reporting/outbox.ts'
import { begin, end, hello, put } from './frames.ts'

export interface SoakOrder {
  readonly kubeconfigPath: string
  readonly own: string
  readonly agentId: string
  readonly namespace: string
  readonly stacks: number
  readonly perStack: number
  readonly settings: ReconcileDeps['settings']
}
export interface SoakSample {
  readonly heapMib: number
  readonly committedMib: number
  readonly externalMib: number
  readonly rssMib: number
  readonly waiting: number
  readonly marks: number
  readonly events: number
  readonly members: number
  readonly healed: number
}

const order = await new Promise<SoakOrder>((resolve) => process.once('message', (message) => resolve(message as SoakOrder)))
process.once('disconnect', () => process.exit(0))
const { own, agentId, namespace, stacks, perStack, settings } = order
const kube = openKube(await loadKubeconfig({ path: order.kubeconfigPath, env: {} }))
const metrics = agentMetrics(createMetrics())
const deps: ReconcileDeps = {
  kube,
  clock,
  metrics,
  parents: new StackParents({ kube, clock }, { namespace: own, agentId, tooling: 'brokkr/v0.0.0', savesManifests: true }),
  members: new MemberIndex(),
  verifiedVersions: new VerifiedVersions(),
  generators: new StackGenerators(() => Promise.resolve([])),
  approvals: new PruneApprovals(),
  agentId,
  hashKey: await ensureHashKey({ kube }, own, AbortSignal.timeout(60_000)),
  settings,
}
const map = new SyncState()
let healed = 0
const outbox = new Outbox({ metrics }, { count: 1_000, bytes: 1024 * 1024 })
const take = outbox.event.bind(outbox)
outbox.event = (event) => {
  if (event.event_type === 'DRIFT') healed += event.changes?.length ?? 0
  take(event)
}
const { members, verifiedVersions } = deps
const drift = new DriftWatch({ kube, clock, log, members, verifiedVersions, namespaces: () => null }, agentId)
const controller = new StackController(
  {
    state: map,
    drift,
    reconcile: deps,
    permit: { refusal: null },
    epochRecord: { orphans: new Set(), save: () => Promise.resolve() },
    outbox,
    agentId: agentId as never,
    clock,
    log,
    metrics,
    conflictWindowMs: () => 600_000,
  },
  { concurrency: () => 10, attemptMs: () => 900_000, retryMaxMs: () => 300_000 },
)
drift.onCandidate((stackId, key) => controller.addDriftCandidate(stackId as never, key))
drift.start()
controller.start()
const text = (stack: number) =>
  Array.from({ length: perStack }, (_, n) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `s${stack}-m${n}`, namespace }, data: { x: 'ours' } }),
  ).join('\n---\n')
const frames = Array.from({ length: stacks }, (_, index) => put(index + 1, 1, text(index + 1)))
const connection = new FrameProcessor(map)
for (const effect of [hello(), begin(), ...frames, end(frames)].flatMap((frame) => connection.process(frame)))
  if (effect.do === 'reconcile') controller.reconcile(effect.stackId)

setInterval(() => {
  ;(globalThis as { gc?: () => void }).gc?.()
  const { heapUsed, heapTotal, external, arrayBuffers, rss } = process.memoryUsage()
  const mib = (bytes: number) => bytes / 1024 / 1024
  process.send?.({
    heapMib: mib(heapUsed),
    committedMib: mib(heapTotal),
    externalMib: mib(external + arrayBuffers),
    rssMib: mib(rss),
    waiting: controller.depth,
    marks: deps.verifiedVersions.size,
    events: outbox.allEvents().length,
    members: deps.members.size,
    healed,
  } satisfies SoakSample)
}, 1_000)
