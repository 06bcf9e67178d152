// Worker entry for large bodies and manifests; started only by the pool in manifest-work.ts.
import { serveJobs } from '@brokkr/runtime/workers/worker-messages.ts'
import { createLargeBodyReader, type LargeBodyJob, listTransferables } from '../http/request/large-body.ts'
import { doManifestJob, type ManifestJob } from './rules/manifest-job.ts'

const readLargeBody = createLargeBodyReader()

serveJobs((input, moved) => {
  const job = input as ManifestJob | LargeBodyJob
  if (job.do !== 'readBody') return doManifestJob(job)
  const outcome = readLargeBody(job)
  moved.push(...listTransferables(outcome))
  return outcome
})
