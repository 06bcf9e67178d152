// Checks the health of applied stacks every minute and soon after a change. Sends changes, and everything again every five minutes; a
// changed status is an event.

import type { HealthReport } from '@brokkr/contract/health/deployment-health.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { uuid7 } from '../../reconcile/uuid7.ts'
import { toTimestamp } from '../report.ts'
import { assessStack, type StackHealth, type UnwellObjects } from './judge-stack.ts'
import { findCrowdedNamespaces, isHealthyByWatch, type ObserveDeps, observe } from './observe.ts'

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
}
/** A stack with its applied object and members. */
interface Running {
  readonly stackId: StackId
  readonly objectId: string
  readonly members: readonly Member[]
}
export interface HealthLoop extends Loop {
  /** The stack changed. */
  touch(stackId: StackId): void
  /** Unhealthy objects of the last check; null: not checked yet. */
  unwell(stackId: StackId): UnwellObjects | null
  /** Called after a check of a stack that has or had unhealthy objects. */
  onUnwellChange(listener: (stackId: StackId) => void): void
  /** Time to collect changes before a check. */
  pauseMs(): number
}
interface HealthRecord {
  objectId: string
  health: StackHealth | null
  unwell: UnwellObjects | null
  text: string
  sentAtMs: number
  /** Member → progress message and its start time. */
  since: Map<string, { says: string; sinceMs: number }>
}
const repeatMs = 5 * 60_000
const batchMax = 200
const messageCharsMax = 4_096

export function healthLoop(deps: HealthDeps): HealthLoop {
  const changedStacks = new Set<StackId>()
  const records = new Map<StackId, HealthRecord>()
  /** Member lists of the last check, which are immutable. */
  const checkedMembers = new WeakSet<readonly Member[]>()
  const listeners = new Set<(stackId: StackId) => void>()
  let fullAtMs = Number.NEGATIVE_INFINITY

  function getRecord(stackId: StackId, objectId: string): HealthRecord {
    const before = records.get(stackId)
    if (before?.objectId === objectId) return before
    const newRecord: HealthRecord = {
      objectId,
      health: null,
      unwell: null,
      text: '',
      sentAtMs: Number.NEGATIVE_INFINITY,
      since: before?.since ?? new Map(),
    }
    records.set(stackId, newRecord)
    return newRecord
  }

  async function check(
    stackIds: ReadonlySet<StackId> | null,
    signal: AbortSignal,
  ): Promise<{ known: HealthRecord; report: HealthReport }[]> {
    const running = deps.running().filter(({ stackId }) => stackIds === null || stackIds.has(stackId))
    const observing = { kube: deps.kube, agentId: deps.agentId, policy: deps.policy(), watched: deps.watched }
    const crowded = findCrowdedNamespaces(running.flatMap((stack) => stack.members))
    const isPlain = (member: Member) => !crowded.has(member.namespace) && isHealthyByWatch(observing, member)
    const { open = [], well = [] } = Object.groupBy(running, (stack) => (wasWell(stack) && stack.members.every(isPlain) ? 'well' : 'open'))
    const only = open.length === 1 ? (open[0]?.stackId ?? null) : null
    const members = open.flatMap((stack) => stack.members)
    const observed = await observe(observing, members, only, signal)
    const reports = open.flatMap(({ stackId, objectId, members: own }) => {
      const memory = getRecord(stackId, objectId)
      const { health, unwell } = assessStack({
        members: own,
        objectId,
        observed,
        nowMs: deps.clock.now(),
        since: trackProgress(memory, own.length),
      })
      if (memory.unwell?.size !== 0 || unwell.size > 0) for (const listener of listeners) listener(stackId)
      checkedMembers.add(own)
      memory.unwell = unwell
      return toReports(memory, health)
    })
    return [...reports, ...well.flatMap(({ stackId }) => repeatReport(records.get(stackId)))]
  }

  /** Healthy at the last check, with the same members. */
  function wasWell({ stackId, objectId, members }: Running): boolean {
    const before = records.get(stackId)
    return before?.objectId === objectId && before.unwell?.size === 0 && checkedMembers.has(members)
  }

  /** Start time of a member's current progress message; an empty message clears it. */
  function trackProgress({ since }: HealthRecord, count: number): (key: string, says: string) => number {
    if (since.size > count) since.clear()
    return (key, says) => {
      const before = since.get(key)
      if (says === '') since.delete(key)
      else if (before?.says !== says) since.set(key, { says, sinceMs: deps.clock.now() })
      return since.get(key)?.sinceMs ?? deps.clock.now()
    }
  }

  const repeatReport = (memory: HealthRecord | undefined) => (memory?.health ? toReports(memory, memory.health) : [])

  function toReports(memory: HealthRecord, health: StackHealth): { known: HealthRecord; report: HealthReport }[] {
    const nowMs = deps.clock.now()
    const text = health === memory.health ? memory.text : JSON.stringify(health)
    const isChanged = memory.health === null ? health.status !== 'healthy' : memory.health.status !== health.status
    if (isChanged) deps.event(toHealthEvent(deps.agentId, memory.objectId, health, nowMs))
    memory.health = health
    if (text === memory.text && nowMs - memory.sentAtMs < repeatMs) return []
    memory.text = text
    const report = { id: memory.objectId as DeploymentObjectId, ...health, checked_at: toTimestamp(nowMs) }
    return [{ known: memory, report }]
  }

  async function send(reports: readonly { known: HealthRecord; report: HealthReport }[], signal: AbortSignal): Promise<void> {
    for (let from = 0; from < reports.length; from += batchMax) {
      const batch = reports.slice(from, from + batchMax)
      try {
        await deps.send(
          batch.map(({ report }) => report),
          signal,
        )
        for (const { known: memory } of batch) memory.sentAtMs = deps.clock.now()
      } catch (error) {
        signal.throwIfAborted()
        // Sent again after the next check.
        for (const { known: memory } of batch) memory.sentAtMs = Number.NEGATIVE_INFINITY
        deps.log.debug('health report failed', { stacks: batch.length, why: errorText(error) })
      }
    }
  }

  return {
    name: 'health',
    everyMs: deps.everyMs,
    pauseMs: () => Math.min(2_000, deps.everyMs() / 10),
    touch: (stackId) => void changedStacks.add(stackId),
    unwell: (stackId) => records.get(stackId)?.unwell ?? null,
    onUnwellChange: (listener) => void listeners.add(listener),
    run: async (signal) => {
      if (!deps.isEnabled()) return {}
      const isFull = deps.clock.monotonicMs() - fullAtMs >= deps.everyMs() * 0.9
      const changed = new Set(changedStacks)
      changedStacks.clear()
      if (!isFull && changed.size === 0) return {}
      if (isFull) fullAtMs = deps.clock.monotonicMs()
      const reports = await check(isFull ? null : changed, signal)
      if (isFull) forgetOthers(records, new Set(deps.running().map(({ stackId }) => stackId)))
      await send(reports, signal)
      return { told: reports.length }
    },
  }
}

function forgetOthers(records: Map<StackId, HealthRecord>, running: ReadonlySet<StackId>): void {
  for (const stackId of records.keys()) if (!running.has(stackId)) records.delete(stackId)
}

function toHealthEvent(agentId: AgentId, objectId: string, health: StackHealth, nowMs: number): NewAgentEvent {
  const isGood = health.status === 'healthy' || (health.status === 'degraded' && health.summary?.progressing === true)
  return {
    id: uuid7(nowMs),
    agent_id: agentId,
    deployment_object_id: objectId as DeploymentObjectId,
    event_type: 'HEALTH_CHECK',
    status: isGood ? 'SUCCESS' : 'FAILURE',
    message: toMessage(health),
    occurred_at: toTimestamp(nowMs),
  }
}

/** The summary as JSON with as many resources as fit. */
function toMessage({ status, summary }: StackHealth): string {
  const resources = summary?.resources ?? []
  for (let count = resources.length; ; count = Math.floor(count / 2)) {
    const text = JSON.stringify({ status, ...summary, resources: resources.slice(0, count) })
    if (text.length <= messageCharsMax || count === 0) return text.slice(0, messageCharsMax)
  }
}
