// Handles diagnostic requests: claims, collects within 30 seconds, and submits the result.
import type { Client } from '@brokkr/contract/client.ts'
import type { DiagnosticRequest } from '@brokkr/contract/diagnostics/diagnostic.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { isNotServed } from '../reporting/send-events.ts'
import { type CollectDeps, collectDiagnostics, type DiagnosticSubject } from './collect.ts'

export interface DiagnosticsDeps extends CollectDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
  readonly everyMs: number
  /** The stack of the deployment object and its members; null: unknown here. */
  readonly subject: (objectId: string, signal: AbortSignal) => Promise<{ stackId: string; members: readonly Member[] } | null>
}
const collectMs = 30_000

export const diagnosticsLoop = (deps: DiagnosticsDeps): Loop => ({
  name: 'diagnostics',
  everyMs: deps.everyMs,
  run: async (signal) => {
    let answered = 0
    for (const request of await pending(deps, signal)) {
      if (await answer(deps, request, signal)) answered++
    }
    return { done: answered }
  },
})

async function pending({ client, agentId }: DiagnosticsDeps, signal: AbortSignal): Promise<DiagnosticRequest[]> {
  try {
    return await client.getPendingDiagnostics({ params: { id: agentId }, query: {} }, { signal })
  } catch (error) {
    if (isNotServed(error)) return []
    throw error
  }
}

async function answer(
  deps: DiagnosticsDeps,
  { id, deployment_object_id: objectId }: DiagnosticRequest,
  signal: AbortSignal,
): Promise<boolean> {
  const { client, clock, log } = deps
  try {
    await client.claimDiagnostic({ params: { id } }, { signal })
    const within = AbortSignal.any([signal, AbortSignal.timeout(collectMs)])
    const stack = await deps.subject(objectId, within)
    const subject: DiagnosticSubject = { objectId, stackId: stack?.stackId ?? '', members: stack?.members ?? [] }
    const parts = stack === null ? unknownHere : await collectDiagnostics(deps, subject, within)
    await client.submitDiagnosticResult(
      { params: { id }, body: { ...parts, collected_at: new Date(clock.now()).toISOString() } },
      { signal },
    )
    return true
  } catch (error) {
    signal.throwIfAborted()
    // Another agent has it, or it has expired.
    if (!(error instanceof ApiError && [403, 404, 409].includes(error.status)))
      log.warn('diagnostic not submitted', { id, why: errorText(error) })
    return false
  }
}

const unknownHere = { pod_statuses: '[]', events: '[]', log_tails: '{}' }
