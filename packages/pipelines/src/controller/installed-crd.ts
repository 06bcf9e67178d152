// Whether the installed definitions keep the fields that the controller relies on. The API server prunes fields that it does not know, and
// a controller that loses run numbers, the Lease of a record or the begin of a withdrawal would act twice or wait for ever.
import { pipelineCrd, promotionCrd } from '@brokkr/contract/pipelines/crds.ts'
import { FIELD_MANAGER } from '@brokkr/contract/pipelines/fields.ts'
import { hasReason, type Kube, type KubeObject, valueAt, waitForCrd } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface RequiredFields {
  readonly kind: string
  readonly group: string
  readonly fields: readonly string[]
}

export const requiredFields: readonly RequiredFields[] = [
  { kind: 'Pipeline', group: 'pipelines.weave.works', fields: ['status.run', 'status.run.firstRevision'] },
  { kind: 'Promotion', group: 'pipelines.brokkr.io', fields: ['status.lease.uid', 'status.effect.withdrawnAt'] },
]

/** Null: the definitions have every required field. Read from the OpenAPI documents, which every identity may read. */
export async function findCrdProblem(kube: Kube, signal: AbortSignal): Promise<string | null> {
  for (const required of requiredFields) {
    const problem = await readProblem(kube, required, signal)
    if (problem !== null) return problem
  }
  return null
}

async function readProblem(kube: Kube, required: RequiredFields, signal: AbortSignal): Promise<string | null> {
  try {
    const { text } = await kube.request('GET', `/openapi/v3/apis/${required.group}/v1alpha1`, { signal })
    const field = findMissingField(JSON.parse(text), required)
    if (field === null) return null
    return `the installed definition of ${required.kind} does not know ${field}: install the definitions of this release`
  } catch (error) {
    if (hasReason(error, 'NotFound')) return `the definition of ${required.kind} is not installed`
    throw error
  }
}

/** The first required field that the schema of the kind in an OpenAPI document lacks; null: none. */
export function findMissingField(document: unknown, { kind, fields }: RequiredFields): string | null {
  const schemas = (valueAt(document, 'components', 'schemas') ?? {}) as Record<string, unknown>
  const schema = Object.entries(schemas).find(([name]) => name.endsWith(`.${kind}`))?.[1]
  const isKnown = (field: string) => valueAt(schema, ...field.split('.').flatMap((part) => ['properties', part])) !== undefined
  return fields.find((field) => !isKnown(field)) ?? null
}

export async function installCrds(deps: { kube: Kube; clock: Clock }, signal: AbortSignal): Promise<void> {
  for (const crd of [pipelineCrd(), promotionCrd()] as unknown as KubeObject[]) {
    await deps.kube.apply(crd, { fieldManager: FIELD_MANAGER, force: true, signal })
    await waitForCrd(deps, crd, { limitMs: 60_000, signal })
  }
}
