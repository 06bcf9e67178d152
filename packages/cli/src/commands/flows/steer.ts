// brokkr flows pause | resume | reset | rewind | skip | replay | run: each sets an annotation of the flow with an id of its own, under a
// field manager that the delivery of the object does not use. The operator carries it out once.
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { RewindTo } from '@brokkr/contract/dataflow/processor-spec.ts'
import { type Kube, type KubeObject, refOf, textAt, valueAt } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { parseDuration } from '../../duration.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { type FlowKind, findFlow, requestMs, withCluster } from './cluster-flows.ts'
import type { ReplayCommandFlags, SteerFlags } from './flags.ts'

const prefix = 'dataflow.dataflow.io/'
const fieldManager = 'brokkr-operations'
const newId = (): string => randomBytes(4).toString('hex')

interface Steering {
  readonly kinds?: readonly FlowKind[]
  /** Value of each annotation; null removes it. */
  annotations(flow: KubeObject): Record<string, string | null>
  readonly done: string
  /** For --wait. */
  isOver?(flow: KubeObject): boolean
}

async function steer(globals: Globals, name: string, options: SteerFlags, steering: Steering): Promise<void> {
  await withCluster(globals, options, async (kube) => {
    const flow = await findFlow(kube, name, options, steering.kinds)
    const named = Object.entries(steering.annotations(flow)).map(([key, value]) => [`${prefix}${key}`, value] as const)
    const body = { metadata: { annotations: Object.fromEntries(named) } }
    await kube.patch(refOf(flow), { type: 'merge', body }, { fieldManager, signal: AbortSignal.timeout(requestMs) })
    if (options.wait === true && steering.isOver !== undefined) await waitUntil(kube, flow, options, (live) => steering.isOver!(live))
    print(`${name}: ${steering.done}`)
  })
}

async function waitUntil(kube: Kube, flow: KubeObject, options: SteerFlags, isOver: (flow: KubeObject) => boolean): Promise<void> {
  const endMs = Date.now() + parseDuration(options.timeout, '--timeout')
  for (;;) {
    const live = await kube.get(refOf(flow), { signal: AbortSignal.timeout(requestMs) })
    if (isOver(live)) return
    if (Date.now() > endMs)
      throw new CliError(`${flow.metadata.name} has not carried it out within ${options.timeout}`, {
        where: `${textAt(live, 'status', 'phase') ?? 'no status'}: ${textAt(live, 'status', 'message') ?? ''}`,
        next: `brokkr flows describe ${flow.metadata.name}`,
        exitCode: exitCodes.timedOut,
      })
    await sleep(500)
  }
}

export const setPaused = (globals: Globals, name: string, options: SteerFlags & { readonly paused: boolean }): Promise<void> =>
  steer(globals, name, options, {
    annotations: () => ({ paused: options.paused ? 'true' : null }),
    done: options.paused ? 'is paused; its position is kept' : 'goes on at its position',
    isOver: (flow) => (textAt(flow, 'status', 'message') === 'paused by hand') === options.paused,
  })

export const resetFlow = (globals: Globals, name: string, options: SteerFlags): Promise<void> => {
  let before: string | undefined
  return steer(globals, name, options, {
    annotations: (flow) => {
      before = textAt(flow, 'status', 'appliedReset')
      return { 'reset-checkpoint': newId() }
    },
    done: 'reads its source from the start',
    isOver: (flow) => textAt(flow, 'status', 'appliedReset') !== before,
  })
}

export function rewindFlow(globals: Globals, name: string, options: SteerFlags & { readonly to: string }): Promise<void> {
  const id = newId()
  const to = parseTarget(options.to)
  return steer(globals, name, options, {
    kinds: ['DataFlow'],
    annotations: () => ({ rewind: JSON.stringify({ id, to }) }),
    done: `is rewound to ${options.to} (request ${id})`,
    isOver: (flow) => textAt(flow, 'status', 'appliedRewind') === id,
  })
}

function parseTarget(text: string): RewindTo {
  const parsed = RewindTo.safeParse(text.trim().startsWith('{') ? parseJson(text) : text)
  if (parsed.success) return parsed.data
  throw new CliError(`--to: "${text}" is not a position`, {
    next: 'earliest, latest, {"time":…}, {"offsets":{…}}, {"changeTime":…}, {"lsn":…}, {"snapshotId":…} or {"resnapshot":[…]}',
    exitCode: exitCodes.usage,
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const skipMessage = (globals: Globals, name: string, options: SteerFlags & { readonly position?: string }): Promise<void> =>
  steer(globals, name, options, {
    kinds: ['DataFlow'],
    annotations: (flow) => {
      const position = options.position ?? textAt(flow, 'status', 'blocked', 'position')
      if (position !== undefined && position !== '') return { skip: position }
      throw new CliError('no message blocks the flow', { next: `brokkr flows describe ${name}`, exitCode: exitCodes.refused })
    },
    done: 'drops the message that blocks it',
    isOver: (flow) => valueAt(flow, 'status', 'blocked') === undefined,
  })

export function replayFlow(globals: Globals, name: string, options: ReplayCommandFlags): Promise<void> {
  const id = newId()
  const max = options.max === undefined ? undefined : parseMax(options.max)
  return steer(globals, name, options, {
    kinds: ['DataFlow'],
    annotations: (flow) => {
      if (valueAt(flow, 'spec', 'errors') !== undefined) return { replay: JSON.stringify({ id, from: options.from, to: options.to, max }) }
      throw new CliError('the flow has no errors sink, so it has no dead letters', { exitCode: exitCodes.refused })
    },
    done: `replays its dead letters (request ${id}); the result is an event: brokkr flows describe ${name}`,
    isOver: (flow) => hasSeen(flow, `replay:${id}`),
  })
}

function parseMax(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 1) return value
  throw new CliError(`--max: "${text}" is not a number of 1 or more`, { exitCode: exitCodes.usage })
}

export function runCron(globals: Globals, name: string, options: SteerFlags): Promise<void> {
  const id = newId()
  return steer(globals, name, options, {
    kinds: ['DataFlowCron'],
    annotations: (flow) => {
      const isActive = textAt(flow, 'status', 'activeJobName') !== undefined
      const policy = textAt(flow, 'spec', 'concurrencyPolicy') ?? 'Forbid'
      if (!isActive || policy.toLowerCase() !== 'forbid') return { run: id }
      throw new CliError('a run is active, and concurrencyPolicy is Forbid', { next: 'wait for its end', exitCode: exitCodes.refused })
    },
    done: `starts a run (request ${id})`,
    isOver: (flow) => hasSeen(flow, `run:${id}`) && ['Completed', 'Failed'].includes(textAt(flow, 'status', 'phase') ?? ''),
  })
}

const hasSeen = (flow: KubeObject, id: string): boolean => {
  const ids = valueAt(flow, 'status', 'oneShots', 'ids')
  return Array.isArray(ids) && ids.includes(id)
}
