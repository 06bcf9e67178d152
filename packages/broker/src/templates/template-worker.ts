// Worker entry for templates; started only by the pool in template-work.ts.
import { serveJobs } from '@brokkr/runtime/workers/worker-messages.ts'
import { prepareSchemas } from './rules/parameter-schema.ts'
import { doTemplateJob, type TemplateJob } from './rules/template-job.ts'

prepareSchemas()
serveJobs((input) => doTemplateJob(input as TemplateJob))
