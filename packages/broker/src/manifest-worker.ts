// The worker that reads large manifests; started by the pool of manifest-work.ts alone.
import { serveJobs } from '@brokkr/runtime/worker-messages.ts'
import { doManifestJob, type ManifestJob } from './domain/manifest-job.ts'

serveJobs((input) => doManifestJob(input as ManifestJob))
