// Orders that steer a flow. Each becomes annotations of the DataFlow object that name the order by its id, so that an order that is carried
// out again repeats nothing. Pure.
import { z } from 'zod'
import { RewindTo } from '../dataflow/processor-spec.ts'

const time = z.string().max(64)

export const FlowAction = z.discriminatedUnion('action', [
  z.object({ action: z.literal('pause') }),
  z.object({ action: z.literal('resume') }),
  z.object({ action: z.literal('reset') }),
  z.object({ action: z.literal('rewind'), to: RewindTo }),
  /** `from` and `to` limit the time of failure. */
  z.object({ action: z.literal('replay'), from: time.optional(), to: time.optional(), max: z.int().min(1).optional() }),
  z.object({ action: z.literal('skip'), position: z.string().min(1).max(4096) }),
  z.object({ action: z.literal('run') }),
])
export type FlowAction = z.output<typeof FlowAction>

/** Work type of the orders. */
export const flowWorkType = 'flow'

export const flowApiVersion = 'dataflow.dataflow.io/v1'
export const FlowObjectKind = z.enum(['DataFlow', 'DataFlowCron'])
export type FlowObjectKind = z.output<typeof FlowObjectKind>

/** Content of a work order of that type, as JSON. */
export const FlowOrderContent = z.object({
  flow: z.object({ kind: FlowObjectKind, namespace: z.string().min(1).max(253), name: z.string().min(1).max(253), stack_id: z.string() }),
  order: FlowAction,
})
export type FlowOrderContent = z.output<typeof FlowOrderContent>

const prefix = 'dataflow.dataflow.io/'
export const pausedAnnotation = `${prefix}paused`

/** Annotations that carry out an action; null removes one. */
export function toFlowAnnotations(action: FlowAction, id: string): Readonly<Record<string, string | null>> {
  switch (action.action) {
    case 'pause':
      return { [pausedAnnotation]: 'true' }
    case 'resume':
      return { [pausedAnnotation]: null }
    case 'reset':
      return { [`${prefix}reset-checkpoint`]: id }
    case 'rewind':
      return { [`${prefix}rewind`]: JSON.stringify({ id, to: action.to }) }
    case 'replay':
      return { [`${prefix}replay`]: JSON.stringify({ id, from: action.from, to: action.to, max: action.max }) }
    case 'skip':
      return { [`${prefix}skip`]: action.position }
    case 'run':
    default:
      return { [`${prefix}run`]: id }
  }
}

const onlyFor: Readonly<Partial<Record<FlowAction['action'], FlowObjectKind>>> = {
  rewind: 'DataFlow',
  replay: 'DataFlow',
  skip: 'DataFlow',
  run: 'DataFlowCron',
}

/** Why an object of this kind does not accept the action; null: it does. */
export function findActionProblem({ action }: Pick<FlowAction, 'action'>, kind: FlowObjectKind): string | null {
  const required = onlyFor[action]
  return required === undefined || required === kind ? null : `${action} is an action of a ${required}, and this is a ${kind}`
}
