// How what is deployed is doing: looked at once a minute, and soon after something happened to a stack. The broker is told what
// changed, and everything again now and then; a change of status is an event.
import type { NewAgentEvent } from '@brokkr/contract/event.ts'
import type { HealthReport } from '@brokkr/contract/health.ts'
import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { judgeStack, type StackHealth, type UnwellObjects } from '../health/judge-stack.ts'
import { crowdedBy, isSeenWell, type ObserveDeps, observe } from '../health/observe.ts'
import { timestamp } from '../reconcile/report.ts'
import { uuid7 } from '../reconcile/uuid7.ts'

export interface HealthDeps extends Omit<ObserveDeps, 'policy' | 'agentId'> {
  readonly policy: () => ObserveDeps['policy']
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
  readonly running: () => readonly Running[]
  readonly send: (reports: readonly HealthReport[], signal: AbortSignal) => Promise<void>
  readonly event: (event: NewAgentEvent) => void
  readonly everyMs: () => number
  readonly isEnabled: () => boolean
  /** The stack was looked at, and something of it is or was not well. */
  readonly onLooked?: (stackId: StackId) => void
}
/** A stack that runs, with the object in force and its members. */
interface Running {
  readonly stackId: StackId
  readonly objectId: string
  readonly members: readonly Member[]
}
export interface HealthLoop extends Loop {
  /** Something happened to this stack. */
  touch(stackId: StackId): void
  /** What the last look at the stack found not to be well; null: there was none. */
  unwell(stackId: StackId): UnwellObjects | null
  /** How long to gather what was touched before a look. */
  pauseMs(): number
}
interface Known {
  objectId: string
  health: StackHealth | null
  unwell: UnwellObjects | null
  text: string
  sentAtMs: number
  /** Member → what it says while it progresses, and since when. */
  since: Map<string, { says: string; sinceMs: number }>
}
const repeatMs = 5 * 60_000
const batchMax = 200
const messageCharsMax = 4_096

export function healthLoop(deps: HealthDeps): HealthLoop {
  const touched = new Set<StackId>()
  const known = new Map<StackId, Known>()
  /** Those of the last looks; a list of them never changes. */
  const looked = new WeakSet<readonly Member[]>()
  let fullAtMs = Number.NEGATIVE_INFINITY

  function knownOf(stackId: StackId, objectId: string): Known {
    const before = known.get(stackId)
    if (before?.objectId === objectId) return before
    const fresh: Known = {
      objectId,
      health: null,
      unwell: null,
      text: '',
      sentAtMs: Number.NEGATIVE_INFINITY,
      since: before?.since ?? new Map(),
    }
    known.set(stackId, fresh)
    return fresh
  }

  async function look(stackIds: ReadonlySet<StackId> | null, signal: AbortSignal): Promise<{ known: Known; report: HealthReport }[]> {
    const running = deps.running().filter(({ stackId }) => stackIds === null || stackIds.has(stackId))
    const observing = { kube: deps.kube, agentId: deps.agentId, policy: deps.policy(), watched: deps.watched }
    const crowded = crowdedBy(running.flatMap((stack) => stack.members))
    const isPlain = (member: Member) => !crowded.has(member.namespace) && isSeenWell(observing, member)
    const { open = [], well = [] } = Object.groupBy(running, (stack) => (wasWell(stack) && stack.members.every(isPlain) ? 'well' : 'open'))
    const only = open.length === 1 ? (open[0]?.stackId ?? null) : null
    const members = open.flatMap((stack) => stack.members)
    const observed = await observe(observing, members, only, signal)
    const judged = open.flatMap(({ stackId, objectId, members: own }) => {
      const memory = knownOf(stackId, objectId)
      const { health, unwell } = judgeStack({
        members: own,
        objectId,
        observed,
        nowMs: deps.clock.now(),
        since: sinceOf(memory, own.length),
      })
      if (memory.unwell?.size !== 0 || unwell.size > 0) deps.onLooked?.(stackId)
      looked.add(own)
      memory.unwell = unwell
      return reportOf(memory, health)
    })
    return [...judged, ...well.flatMap(({ stackId }) => sameAgain(known.get(stackId)))]
  }

  /** By the last look, at the very members that it has now. */
  function wasWell({ stackId, objectId, members }: Running): boolean {
    const before = known.get(stackId)
    return before?.objectId === objectId && before.unwell?.size === 0 && looked.has(members)
  }

  /** Since when a member says the same thing; a member that says nothing is forgotten. */
  function sinceOf({ since }: Known, count: number): (key: string, says: string) => number {
    if (since.size > count) since.clear()
    return (key, says) => {
      const before = since.get(key)
      if (says === '') since.delete(key)
      else if (before?.says !== says) since.set(key, { says, sinceMs: deps.clock.now() })
      return since.get(key)?.sinceMs ?? deps.clock.now()
    }
  }

  const sameAgain = (memory: Known | undefined) => (memory?.health ? reportOf(memory, memory.health) : [])

  function reportOf(memory: Known, health: StackHealth): { known: Known; report: HealthReport }[] {
    const nowMs = deps.clock.now()
    const text = health === memory.health ? memory.text : JSON.stringify(health)
    const isChanged = memory.health === null ? health.status !== 'healthy' : memory.health.status !== health.status
    if (isChanged) deps.event(eventOf(deps.agentId, memory.objectId, health, nowMs))
    memory.health = health
    if (text === memory.text && nowMs - memory.sentAtMs < repeatMs) return []
    memory.text = text
    const report = { id: memory.objectId as DeploymentObjectId, ...health, checked_at: timestamp(nowMs) }
    return [{ known: memory, report }]
  }

  async function send(found: readonly { known: Known; report: HealthReport }[], signal: AbortSignal): Promise<void> {
    for (let from = 0; from < found.length; from += batchMax) {
      const batch = found.slice(from, from + batchMax)
      try {
        await deps.send(
          batch.map(({ report }) => report),
          signal,
        )
        for (const { known: memory } of batch) memory.sentAtMs = deps.clock.now()
      } catch (error) {
        signal.throwIfAborted()
        // Told with the next look: nothing of it counts as said.
        for (const { known: memory } of batch) memory.sentAtMs = Number.NEGATIVE_INFINITY
        deps.log.debug('health not told', { stacks: batch.length, why: errorText(error) })
      }
    }
  }

  return {
    name: 'health',
    everyMs: deps.everyMs,
    pauseMs: () => Math.min(2_000, deps.everyMs() / 10),
    touch: (stackId) => void touched.add(stackId),
    unwell: (stackId) => known.get(stackId)?.unwell ?? null,
    run: async (signal) => {
      if (!deps.isEnabled()) return {}
      const isFull = deps.clock.monotonicMs() - fullAtMs >= deps.everyMs() * 0.9
      const some = new Set(touched)
      touched.clear()
      if (!isFull && some.size === 0) return {}
      if (isFull) fullAtMs = deps.clock.monotonicMs()
      const found = await look(isFull ? null : some, signal)
      if (isFull) forgetOthers(known, new Set(deps.running().map(({ stackId }) => stackId)))
      await send(found, signal)
      return { told: found.length }
    },
  }
}

function forgetOthers(known: Map<StackId, Known>, running: ReadonlySet<StackId>): void {
  for (const stackId of known.keys()) if (!running.has(stackId)) known.delete(stackId)
}

function eventOf(agentId: AgentId, objectId: string, health: StackHealth, nowMs: number): NewAgentEvent {
  const isGood = health.status === 'healthy' || (health.status === 'degraded' && health.summary?.progressing === true)
  return {
    id: uuid7(nowMs),
    agent_id: agentId,
    deployment_object_id: objectId as DeploymentObjectId,
    event_type: 'HEALTH_CHECK',
    status: isGood ? 'SUCCESS' : 'FAILURE',
    message: messageOf(health),
    occurred_at: timestamp(nowMs),
  }
}

/** The summary as JSON; of too many resources as many as fit. */
function messageOf({ status, summary }: StackHealth): string {
  const resources = summary?.resources ?? []
  for (let count = resources.length; ; count = Math.floor(count / 2)) {
    const text = JSON.stringify({ status, ...summary, resources: resources.slice(0, count) })
    if (text.length <= messageCharsMax || count === 0) return text.slice(0, messageCharsMax)
  }
}
