// A preview in a thread of its own, so that a request ends in time whatever its patterns and samples are.
import { printProblem } from '@brokkr/contract/dataflow/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import { validate } from '@brokkr/contract/dataflow/validate.ts'
import { serveJobs } from '@brokkr/runtime/worker-messages.ts'
import { previewMessages, sampleMessages } from './preview.ts'

export interface PreviewJob {
  readonly flow: unknown
  readonly samples: readonly string[]
  readonly nowMs: number
}
export interface PreviewAnswer {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
  /** As text: digits would not survive another way between threads. */
  readonly previews: string
}

serveJobs((input): PreviewAnswer => {
  const { flow: object, samples, nowMs } = input as PreviewJob
  const { flow, problems, warnings } = validate(object, re2)
  const previews = flow === undefined ? [] : previewMessages(flow, sampleMessages(samples), nowMs).previews
  return { problems: problems.map(printProblem), warnings: warnings.map(printProblem), previews: JSON.stringify(previews) }
})
