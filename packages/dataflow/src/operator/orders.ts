// Orders that are carried out once: which ones an object asks for, under which id, and when they are done. Pure. An id stays in the
// processor's spec after its flag is gone: taking it out would roll the pod once more for nothing.
import { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import { isFields, numberAt, textAt } from '@brokkr/kube/fields.ts'
import type { KubeObject, ManagedFieldsEntry } from '@brokkr/kube/object.ts'
import { annotation } from './names.ts'

/** Why an order was not understood; a person reads it. */
export interface OrderProblem {
  readonly annotation: string
  readonly reason: string
}

export interface Orders {
  readonly oneShots: OneShots
  readonly problems: readonly OrderProblem[]
}

/** `before`: what the processor's spec says at present. */
export function ordersOf(flow: KubeObject, before: OneShots): Orders {
  const annotations = flow.metadata.annotations ?? {}
  const problems: OrderProblem[] = []
  const resetId = resetIdOf(flow) ?? before.resetId
  const rewind = rewindOf(annotations[annotation.rewind], problems) ?? before.rewind
  const skip = annotations[annotation.skip]
  const oneShots = {
    ...(resetId === undefined ? {} : { resetId }),
    ...(rewind === undefined ? {} : { rewind }),
    ...(skip === undefined ? {} : { skip }),
  }
  return { oneShots, problems }
}

/** The id of a reset that is asked for at this moment. */
export function resetIdOf(flow: KubeObject): string | undefined {
  if (isAnnotated(flow)) return `a${annotatedAt(flow) ?? flow.metadata.generation ?? 0}`
  return isFlagged(flow) ? `g${flow.metadata.generation ?? 0}` : undefined
}

const isAnnotated = ({ metadata }: KubeObject): boolean => metadata.annotations?.[annotation.resetCheckpoint] === 'true'
const isFlagged = ({ spec }: KubeObject): boolean => spec?.['checkpointReset'] === true

/** When the annotation was set, by the server's own account: the same until somebody sets it anew. */
function annotatedAt({ metadata }: KubeObject): string | undefined {
  const owners = (metadata.managedFields ?? []).filter(ownsReset).map(({ time }) => time ?? '')
  return owners.toSorted().at(-1)
}

function ownsReset({ fieldsV1 }: ManagedFieldsEntry): boolean {
  const metadata = isFields(fieldsV1) ? fieldsV1['f:metadata'] : undefined
  const annotations = isFields(metadata) ? metadata['f:annotations'] : undefined
  return isFields(annotations) && `f:${annotation.resetCheckpoint}` in annotations
}

function rewindOf(text: string | undefined, problems: OrderProblem[]): OneShots['rewind'] {
  if (text === undefined) return undefined
  try {
    return OneShots.shape.rewind.parse(JSON.parse(text))
  } catch {
    problems.push({ annotation: annotation.rewind, reason: 'is no JSON of the form {"id": …, "to": …}' })
    return undefined
  }
}

/** Whether every pod that is wanted runs the template with this spec and is ready: only then is an order surely carried out. */
export function isRolledOut(deployment: KubeObject, specHash: string): boolean {
  const wanted = numberAt(deployment, 'spec', 'replicas') ?? 1
  const at = (...path: string[]): number => numberAt(deployment, 'status', ...path) ?? 0
  return (
    wanted > 0 &&
    textAt(deployment, 'spec', 'template', 'metadata', 'annotations', annotation.specHash) === specHash &&
    at('observedGeneration') === deployment.metadata.generation &&
    at('updatedReplicas') === wanted &&
    at('readyReplicas') === wanted &&
    at('replicas') === wanted
  )
}
