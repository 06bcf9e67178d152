// Runs a preview in a worker thread, so that a timeout can end it even during a slow pattern.
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { validate } from '@brokkr/contract/dataflow/spec/validate.ts'
import { serveJobs } from '@brokkr/runtime/workers/worker-messages.ts'
import { previewMessages, sampleMessages } from './preview.ts'

export interface PreviewJob {
  readonly flow: unknown
  readonly samples: readonly string[]
  readonly nowMs: number
}
export interface PreviewJobResult {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  /** As JSON text: structured clone would lose digits of raw numbers. */
  readonly previews: string
}

serveJobs((input): PreviewJobResult => {
  const { flow: object, samples, nowMs } = input as PreviewJob
  const { flow, problems, warnings } = validate(object, re2)
  const previews = flow === undefined ? [] : previewMessages(flow, sampleMessages(samples), nowMs).previews
  return { problems: problems.map(printProblem), warnings: warnings.map(printProblem), previews: JSON.stringify(previews) }
})
