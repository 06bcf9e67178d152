// Ours: the reconcile half of the agent with its shipped settings, fed by frames as the stream brings them. Tells the time of the
// first apply, of a second look that finds everything unchanged, and of a change of every object.
import { randomUUID } from 'node:crypto'
import { FrameProcessor } from '@brokkr/agent/connection/frame-processor.ts'
import { SyncState } from '@brokkr/agent/desired-state/sync-state.ts'
import { agentMetrics } from '@brokkr/agent/metrics.ts'
import { ensureHashKey } from '@brokkr/agent/reconcile/agent-state.ts'
import { DriftWatch } from '@brokkr/agent/reconcile/drift/drift-watch.ts'
import { VerifiedVersions } from '@brokkr/agent/reconcile/drift/verified-versions.ts'
import { MemberIndex } from '@brokkr/agent/reconcile/member-index.ts'
import { PruneApprovals } from '@brokkr/agent/reconcile/prune/prune-approvals.ts'
import { StackController } from '@brokkr/agent/reconcile/stack-controller.ts'
import { StackGenerators } from '@brokkr/agent/reconcile/stack-generators.ts'
import { StackParents } from '@brokkr/agent/reconcile/stack-parents.ts'
import { Outbox } from '@brokkr/agent/reporting/outbox.ts'
import { begin, end, hello, put } from '@brokkr/agent/test-parts/frames.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { configMapText } from '../kube/objects.ts'

const [path, own, namespace, countText, stacksText] = process.argv.slice(2) as [string, string, string, string, string]
const [count, stacks] = [Number(countText), Number(stacksText)]
const agentId = randomUUID()

function startAgent() {
  return loadKubeconfig({ path, env: process.env }).then(async (config) => {
    const kube = openKube(config, { userAgent: 'brokkr-agent/bench' })
    const metrics = agentMetrics(createMetrics())
    const reconcile = {
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
      settings: {
        policy: { allowedNamespaces: [], watchNamespace: null, protectedNamespaces: [own], deniedKinds: [] },
        tenants: { grants: {}, identities: {}, identitiesRequired: false },
        signatures: { isRequired: false, keys: {} },
        pruneGuard: { count: 5, percent: 20 },
        defaultNamespace: 'default',
        adoption: 'unowned' as const,
        adoptFrom: [],
        applyConcurrency: 8,
        dryRun: true,
        fieldValidation: 'Strict' as const,
        crdWaitMs: 60_000,
        goneWaitMs: 5_000,
      },
    }
    const map = new SyncState()
    const outbox = new Outbox({ metrics })
    const { members, verifiedVersions } = reconcile
    const drift = new DriftWatch({ kube, clock, log, members, verifiedVersions, namespaces: () => null }, agentId)
    const controller = new StackController(
      {
        state: map,
        drift,
        reconcile,
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
    /** Until every stack was reported at this revision. */
    const bring = async (rev: number, value: string): Promise<number> => {
      const frames = Array.from({ length: stacks }, (_, stack) => put(stack + 1, rev, buildManifest(stack, value)))
      const startedMs = performance.now()
      const connection = new FrameProcessor(map)
      for (const effect of [hello(), begin(), ...frames, end(frames)].flatMap((frame) => connection.process(frame)))
        if (effect.do === 'reconcile') controller.reconcile(effect.stackId)
      for (;;) {
        const appliedRows = outbox.nextRows(stacks).filter((row) => row.rev === rev && row.phase === 'applied')
        if (appliedRows.length === stacks) return (performance.now() - startedMs) / 1000
        const failed = outbox.nextRows(stacks).find(({ phase }) => phase === 'failed')
        if (failed) throw new Error(JSON.stringify(failed))
        await clock.sleep(5)
      }
    }
    const stop = async () => {
      await controller.stop()
      await drift.stop()
      await kube.close()
    }
    const lookAgain = async (): Promise<number> => {
      const startedMs = performance.now()
      await controller.resync(AbortSignal.timeout(600_000))
      while (controller.depth > 0) await clock.sleep(5)
      return (performance.now() - startedMs) / 1000
    }
    return { bring, lookAgain, stop }
  })
}

const perStack = count / stacks
const buildManifest = (stack: number, value: string): string =>
  Array.from({ length: perStack }, (_, n) => configMapText(namespace, stack * perStack + n, value)).join('\n---\n')

const agent = await startAgent()
const seconds = await agent.bring(1, 'a')
process.stdout.write(`${JSON.stringify({ step: 'first', seconds })}\n`)
// The measurement reads the API server's counters between these two lines.
await new Promise((resolve) => process.stdin.once('data', resolve))
const again = await agent.lookAgain()
process.stdout.write(`${JSON.stringify({ step: 'again', seconds: again })}\n`)
await new Promise((resolve) => process.stdin.once('data', resolve))
const change = await agent.bring(2, 'b')
process.stdout.write(`${JSON.stringify({ step: 'change', seconds: change })}\n`)
await agent.stop()
process.exit(0)
