// Has manifests worked on where they cannot hold up others: small texts here and now, larger ones in a worker with a bound on time
// and memory. A text that goes over its bound costs its worker, and its sender gets a refusal.
import { ApiError } from '@brokkr/contract/error.ts'
import { Failure } from '@brokkr/runtime/errors.ts'
import { createWorkerPool } from '@brokkr/runtime/worker-pool.ts'
import { manifestWorkerFile } from './assets.ts'
import { doManifestJob, type ManifestJob, type ManifestOutcome, type ManifestWork } from './domain/manifest-job.ts'
import { notShown } from './domain/mask-manifest.ts'

export interface ManifestWorkOptions {
  /** Texts longer than this go to a worker. */
  readonly inlineCharsMax?: number
  readonly timeoutMs?: number
  readonly memoryMb?: number
  readonly waitingMax?: number
}

export function createManifestWork(options: ManifestWorkOptions = {}): ManifestWork & { close(): Promise<void> } {
  const { inlineCharsMax = 64 * 1024, timeoutMs = 5_000, memoryMb = 256, waitingMax = 64 } = options
  const pool = createWorkerPool<ManifestJob, ManifestOutcome>({ file: manifestWorkerFile(), timeoutMs, memoryMb, waitingMax })
  const run = async (job: ManifestJob): Promise<ManifestOutcome> => {
    if (charsOf(job) <= inlineCharsMax) return doManifestJob(job)
    return pool.run(job).catch((error: unknown) => {
      throw workerFault(error, { timeoutMs, memoryMb })
    })
  }
  return {
    check: async (text, validation) => expected('checked', await run({ do: 'check', text, validation })),
    compare: async (before, text, validation) => expected('compared', await run({ do: 'compare', before, text, validation })),
    mask: async (text) => {
      const outcome = await run({ do: 'mask', text }).catch(shownAsUnreadable)
      return expected('masked', outcome).text
    },
    close: () => pool.close(),
  }
}

/** Whoever may not see secrets sees nothing of a text that takes too much to read. */
function shownAsUnreadable(error: unknown): ManifestOutcome {
  if (error instanceof ApiError && error.code === 'invalid_deployment_object') return { is: 'masked', text: notShown }
  throw error
}

const charsOf = (job: ManifestJob): number => (job.text?.length ?? 0) + (job.do === 'compare' ? job.before.length : 0)

function expected<Is extends ManifestOutcome['is']>(is: Is, outcome: ManifestOutcome): ManifestOutcome & { is: Is } {
  if (outcome.is === 'refused') throw new ApiError('invalid_deployment_object', outcome.message, { details: outcome.details })
  if (outcome.is !== is) throw new Error(`the worker answered ${outcome.is} where ${is} was asked for`)
  return outcome as ManifestOutcome & { is: Is }
}

function workerFault(error: unknown, { timeoutMs, memoryMb }: { timeoutMs: number; memoryMb: number }): unknown {
  const code = error instanceof Failure ? error.code : undefined
  if (code === 'overloaded' || code === 'closed')
    return new ApiError('overloaded', 'too many large manifests are being read; try again', { cause: error })
  if (code !== 'worker_timeout' && code !== 'worker_memory') return error
  const bound = code === 'worker_timeout' ? `${timeoutMs / 1000} s` : `${memoryMb} MiB of memory`
  return new ApiError('invalid_deployment_object', `reading the manifest takes more than ${bound}: split it into several stacks`, {
    cause: error,
    details: { limit: code === 'worker_timeout' ? 'manifest_seconds' : 'manifest_memory_mib' },
  })
}
