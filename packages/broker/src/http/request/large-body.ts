// Reads a submission that is too large for the event loop: a worker decodes, parses and validates the body and prepares its manifest. A
// rejection returns as data, because errors cannot be passed between threads.
import { createDeploymentObject, type NewDeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { z } from 'zod'
import { type LargeManifest, prepareLargeManifest } from '../../deployments/rules/stored-manifest.ts'
import { decodeBody, hashBody, type ReceivedBody, toSubmission } from './body.ts'
import { createCompiler } from './validate.ts'

/** Larger bodies of submissions are read in a worker. */
export const largeBodyBytes = 256 * 1024

export interface LargeBodyJob extends ReceivedBody {
  readonly do: 'readBody'
  /** For raw YAML, which has no field for it. */
  readonly isDeletionMarker: boolean
  /** Query of a request with an Idempotency-Key; null if no hash is needed. */
  readonly hashedQuery: string | null
}
export type LargeBodyOutcome =
  | { readonly is: 'read'; readonly body: Submission; readonly bodyHash: string | null; readonly forms: Omit<LargeManifest, 'text'> }
  | { readonly is: 'bodyRefused'; readonly code: ErrorCode; readonly message: string; readonly details: Record<string, unknown> | null }
type Submission = z.output<typeof NewDeploymentObject>

/** Throws the same errors as for a small body, and `overloaded` if too many bodies wait for a worker. */
export type ReadLargeBody = (job: Omit<LargeBodyJob, 'do'>) => Promise<LargeBody>

const prepared: unique symbol = Symbol('prepared in a worker')

/** A validated body with the prepared manifest. */
export interface LargeBody extends Submission {
  readonly [prepared]: { readonly text: LargeManifest; readonly hash: string | null }
}

/** Null for a body that was read on the event loop. */
export const getPreparedManifest = (body: unknown): LargeBody[typeof prepared] | null =>
  typeof body === 'object' && body !== null && prepared in body ? (body as LargeBody)[prepared] : null

/** Runs in the worker. */
export function createLargeBodyReader(): (job: LargeBodyJob) => LargeBodyOutcome {
  const validators = createCompiler()(createDeploymentObject)
  return (job) => {
    try {
      const bytes = Buffer.from(job.bytes.buffer, job.bytes.byteOffset, job.bytes.byteLength)
      const body = validators.body(toSubmission(decodeBody({ form: job.form, bytes }, 'manifest'), job.isDeletionMarker)) as Submission
      const { text: _, ...forms } = prepareLargeManifest(body.yaml_content)
      return { is: 'read', body, bodyHash: job.hashedQuery === null ? null : hashBody(job.hashedQuery, body), forms }
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      const { code, message, details } = error
      return { is: 'bodyRefused', code, message, details: details === undefined ? null : { ...details } }
    }
  }
}

/** Converts the worker's result to the body that handlers use. */
export function toLargeBody(outcome: LargeBodyOutcome): LargeBody {
  if (outcome.is === 'bodyRefused') {
    throw new ApiError(outcome.code, outcome.message, outcome.details === null ? {} : { details: outcome.details })
  }
  const { body, bodyHash: hash, forms } = outcome
  return { ...body, [prepared]: { text: { text: body.yaml_content, ...forms }, hash } }
}

/** Memory that is transferred between threads instead of copied. */
export const listTransferables = (outcome: LargeBodyOutcome): ArrayBuffer[] =>
  outcome.is === 'read' ? [outcome.forms.bytes.buffer, outcome.forms.json.buffer] : []
