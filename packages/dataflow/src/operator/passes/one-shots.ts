// One-shot requests to a flow: which ones the object contains, and which of them are new. Pure. Every request has an id. The operator never
// removes a field or annotation of another manager; it remembers the ids instead, so that an object that is applied again repeats nothing.
// An id stays in the processor's spec: removing it would roll the pod again.
import { createHash } from 'node:crypto'
import { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { SeenOneShots } from '@brokkr/contract/dataflow/status.ts'
import type { KubeObject } from '@brokkr/kube'
import { z } from 'zod'
import { annotation } from '../names.ts'

/** Why a request is invalid, for the user. */
export interface OneShotProblem {
  readonly annotation: string
  readonly reason: string
  /** Differs between values and between objects. */
  readonly id: string
}

export const ReplayRequest = z.object({
  id: z.string().min(1).max(253),
  from: z.string().optional(),
  to: z.string().optional(),
  max: z.int().min(1).optional(),
})
export type ReplayRequest = z.output<typeof ReplayRequest>

export interface OneShotRequests {
  /** For the processor. */
  readonly oneShots: OneShots
  /** New replay; undefined if none or done before. */
  readonly replay: ReplayRequest | undefined
  /** Id of a new run of a Cron. */
  readonly run: string | undefined
  readonly seen: SeenOneShots
  readonly problems: readonly OneShotProblem[]
}

const idsMax = 50

/** `before`: one-shots in the current spec of the processor. */
export function readOneShots(flow: KubeObject, before: OneShots, seen: SeenOneShots): OneShotRequests {
  const annotations = flow.metadata.annotations ?? {}
  const problems: OneShotProblem[] = []
  const ids = [...(seen.ids ?? [])]
  const isNew = (kind: string, id: string | undefined): id is string => {
    if (id === undefined) return false
    const at = ids.indexOf(`${kind}:${id}`)
    // At the end, so that an id that the object still names is never the one that is forgotten.
    if (at >= 0) ids.splice(at, 1)
    ids.push(`${kind}:${id}`)
    return at < 0
  }
  const reset = readReset(flow, seen)
  const parse = <T>(schema: z.ZodType<T>, name: string): T | undefined => {
    const text = annotations[name]
    const parsed = parseRequest(schema, text)
    if (text !== undefined && parsed === undefined)
      problems.push({ annotation: name, reason: `is not JSON of the form ${formOf(name)}`, id: hashProblem(flow, name, text) })
    return parsed
  }
  const rewind = parse(OneShots.shape.rewind, annotation.rewind)
  const replay = parse(ReplayRequest, annotation.replay)
  const run = annotations[annotation.run]
  const skip = annotations[annotation.skip] ?? before.skip
  const resetId = reset.id ?? before.resetId
  const nextRewind = isNew('rewind', rewind?.id) ? rewind : before.rewind
  return {
    oneShots: {
      ...(resetId === undefined ? {} : { resetId }),
      ...(nextRewind === undefined ? {} : { rewind: nextRewind }),
      ...(skip === undefined ? {} : { skip }),
    },
    replay: isNew('replay', replay?.id) ? replay : undefined,
    run: isNew('run', run) ? run : undefined,
    seen: { ...reset.seen, ...(ids.length === 0 ? {} : { ids: ids.slice(-idsMax) }) },
    problems,
  }
}

/** A value arms a reset when it differs from the last one that was seen; `true` therefore arms once per object. */
function readReset(flow: KubeObject, seen: SeenOneShots): { id: string | undefined; seen: Omit<SeenOneShots, 'ids'> } {
  const field = toResetId(flow, flow.spec?.['checkpointReset'])
  const noted = toResetId(flow, flow.metadata.annotations?.[annotation.resetCheckpoint])
  const newField = field !== undefined && field !== seen.resetField ? field : undefined
  const newAnnotation = noted !== undefined && noted !== seen.resetAnnotation ? noted : undefined
  const [resetField, resetAnnotation] = [field ?? seen.resetField, noted ?? seen.resetAnnotation]
  return {
    id: newAnnotation ?? newField,
    seen: { ...(resetField === undefined ? {} : { resetField }), ...(resetAnnotation === undefined ? {} : { resetAnnotation }) },
  }
}

/** Differs between objects of the same name, so that a flow that was created again is armed again. */
function toResetId({ metadata }: KubeObject, value: unknown): string | undefined {
  if ((typeof value !== 'string' && typeof value !== 'boolean') || [false, 'false', ''].includes(value)) return undefined
  return createHash('sha256')
    .update(JSON.stringify([metadata.uid, String(value)]))
    .digest('hex')
    .slice(0, 16)
}

function parseRequest<T>(schema: z.ZodType<T>, text: string | undefined): T | undefined {
  try {
    return text === undefined ? undefined : schema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

const formOf = (name: string): string => (name === annotation.rewind ? '{"id": …, "to": …}' : '{"id": …, "from": …, "to": …, "max": …}')

const hashProblem = ({ metadata }: KubeObject, name: string, text: string): string =>
  createHash('sha256')
    .update(JSON.stringify([metadata.uid, name, text]))
    .digest('hex')
    .slice(0, 16)
