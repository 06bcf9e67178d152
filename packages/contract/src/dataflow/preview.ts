// Preview of a data flow on samples. The broker forwards it to the preview program; no source and no sink is opened.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'

export const previewBodyBytesMax = 1 << 20

export const previewFlow = endpoint({
  method: 'POST',
  path: '/api/v1/dataflow/preview',
  summary: 'Show the effect of a flow on samples, step by step; writes nothing',
  body: z.object({
    /** A DataFlow or DataFlowCron. */
    flow: z.record(z.string(), z.unknown()),
    /** Payloads. */
    samples: z.array(z.string()).max(20),
  }),
  success: 200,
  response: z.object({
    problems: z.array(z.string()),
    warnings: z.array(z.string()),
    previews: z.array(z.record(z.string(), z.unknown())),
  }),
  errors: ['payload_too_large', 'validation_failed', 'preview_unavailable'],
})
