// Checks, compares and masks manifests: small ones on the main thread, larger ones in a worker with limits on time and memory. A manifest
// that exceeds a limit ends its worker and is rejected.
import { ApiError } from '@brokkr/contract/errors.ts'
import { Failure } from '@brokkr/runtime/errors.ts'
import { createWorkerPool, type JobOptions } from '@brokkr/runtime/workers/worker-pool.ts'
import { manifestWorkerFile } from '../assets.ts'
import { type LargeBodyJob, type LargeBodyOutcome, type ReadLargeBody, toLargeBody } from '../http/request/large-body.ts'
import { doManifestJob, type ManifestJob, type ManifestOutcome, type ManifestWork } from './rules/manifest-job.ts'
import { notShown } from './rules/mask-manifest.ts'

export interface ManifestWorkOptions {
  /** Longer manifests go to a worker. */
  readonly inlineCharsMax?: number
  readonly timeoutMs?: number
  readonly memoryMb?: number
  readonly waitingMax?: number
}

export interface ManifestWorkers extends ManifestWork {
  readonly readBody: ReadLargeBody
  close(): Promise<void>
}

/** The time to read a body grows only with its limited length, so this timeout only ends a worker that hangs. */
const bodyTimeoutMs = 30_000

export function createManifestWork(options: ManifestWorkOptions = {}): ManifestWorkers {
  const { inlineCharsMax = 64 * 1024, timeoutMs = 5_000, memoryMb = 256, waitingMax = 64 } = options
  const pool = createWorkerPool<ManifestJob | LargeBodyJob, ManifestOutcome | LargeBodyOutcome>({
    file: manifestWorkerFile(),
    timeoutMs,
    memoryMb,
    waitingMax,
  })
  const inWorker = (job: ManifestJob | LargeBodyJob, overrides: JobOptions = {}) =>
    pool.run(job, overrides).catch((error: unknown) => {
      throw toApiError(error, { timeoutMs, memoryMb, ...overrides })
    })
  const run = async (job: ManifestJob): Promise<ManifestOutcome> => {
    if (countChars(job) <= inlineCharsMax) return doManifestJob(job)
    return (await inWorker(job)) as ManifestOutcome
  }
  return {
    check: async (text, validation) => requireOutcome('checked', await run({ do: 'check', text, validation })),
    compare: async (before, text, validation) => requireOutcome('compared', await run({ do: 'compare', before, text, validation })),
    mask: async (text) => {
      const outcome = await run({ do: 'mask', text }).catch(maskAsUnreadable)
      return requireOutcome('masked', outcome).text
    },
    readBody: async (job) => {
      const overrides = { transfer: [job.bytes.buffer as ArrayBuffer], timeoutMs: bodyTimeoutMs }
      return toLargeBody((await inWorker({ do: 'readBody', ...job }, overrides)) as LargeBodyOutcome)
    },
    close: () => pool.close(),
  }
}

/** A manifest that exceeds the limits is masked completely. */
function maskAsUnreadable(error: unknown): ManifestOutcome {
  if (error instanceof ApiError && error.code === 'invalid_deployment_object') return { is: 'masked', text: notShown }
  throw error
}

const countChars = (job: ManifestJob): number => (job.text?.length ?? 0) + (job.do === 'compare' ? job.before.length : 0)

function requireOutcome<Is extends ManifestOutcome['is']>(is: Is, outcome: ManifestOutcome): ManifestOutcome & { is: Is } {
  if (outcome.is === 'refused') throw new ApiError('invalid_deployment_object', outcome.message, { details: outcome.details })
  if (outcome.is !== is) throw new Error(`manifest worker returned ${outcome.is} instead of ${is}`)
  return outcome as ManifestOutcome & { is: Is }
}

function toApiError(error: unknown, { timeoutMs, memoryMb }: { timeoutMs: number; memoryMb: number }): unknown {
  const code = error instanceof Failure ? error.code : undefined
  if (code === 'overloaded' || code === 'closed')
    return new ApiError('overloaded', 'too many large manifests are being processed; retry later', { cause: error })
  if (code !== 'worker_timeout' && code !== 'worker_memory') return error
  const bound = code === 'worker_timeout' ? `${timeoutMs / 1000} s` : `${memoryMb} MiB of memory`
  return new ApiError('invalid_deployment_object', `reading the manifest takes more than ${bound}: split it into several stacks`, {
    cause: error,
    details: { limit: code === 'worker_timeout' ? 'manifest_seconds' : 'manifest_memory_mib' },
  })
}
