// Checks and renders templates in worker threads with limits on time and memory. A template that exceeds a limit ends its worker and is
// rejected; the event loop and other requests are not affected.
import { ApiError } from '@brokkr/contract/errors.ts'
import { Failure } from '@brokkr/runtime/errors.ts'
import { createWorkerPool } from '@brokkr/runtime/workers/worker-pool.ts'
import { templateWorkerFile } from '../assets.ts'
import type { TemplateJob, TemplateOutcome, TemplateWork } from './rules/template-job.ts'

export interface TemplateWorkers extends TemplateWork {
  close(): Promise<void>
}

const memoryMb = 128

export function createTemplateWork({ timeoutMs = 1_000 }: { readonly timeoutMs?: number } = {}): TemplateWorkers {
  const pool = createWorkerPool<TemplateJob, TemplateOutcome>({ file: templateWorkerFile(), timeoutMs, memoryMb, waitingMax: 64 })
  const run = async (job: TemplateJob): Promise<TemplateOutcome> => {
    const outcome = await pool.run(job).catch((error: unknown) => {
      throw toApiError(error, job, timeoutMs)
    })
    if (outcome.is === 'refused')
      throw new ApiError(outcome.code, outcome.message, outcome.details === null ? {} : { details: outcome.details })
    return outcome
  }
  return {
    check: async (source, schema) => void (await run({ do: 'check', source, schema })),
    render: async (rendering) => {
      const outcome = await run({ do: 'render', ...rendering })
      if (outcome.is !== 'rendered') throw new Error(`template worker returned ${outcome.is} instead of a text`)
      return outcome.text
    },
    close: () => pool.close(),
  }
}

function toApiError(error: unknown, job: TemplateJob, timeoutMs: number): unknown {
  const code = error instanceof Failure ? error.code : undefined
  if (code === 'overloaded' || code === 'closed')
    return new ApiError('overloaded', 'too many templates are being processed; retry later', { cause: error })
  if (code !== 'worker_timeout' && code !== 'worker_memory') return error
  const bound = code === 'worker_timeout' ? `${timeoutMs / 1000} s` : `${memoryMb} MiB of memory`
  const [refusal, what] =
    job.do === 'check' ? (['invalid_template_syntax', 'checking'] as const) : (['template_render_failed', 'rendering'] as const)
  return new ApiError(refusal, `${what} the template takes more than ${bound}: make it smaller`, {
    cause: error,
    details: { limit: code === 'worker_timeout' ? 'template_seconds' : 'template_memory_mib' },
  })
}
