// Pushes changes to the sockets of agents. Rows of the change feed name what changed; the frames are built from the current state, so the
// process that made a change does not matter. If the state cannot be read, agents are told to poll.
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ChangeRow } from '../change-feed/store/change-log.ts'
import type { Seal } from '../seal.ts'
import { openOrder } from '../work-orders/open-contents.ts'
import * as workOrders from '../work-orders/store/work-orders.ts'
import type { AgentSockets } from './agent-sockets.ts'
import { toFrame, toPollFrame } from './rules.ts'
import * as liveStore from './store.ts'

export interface ChangePusher {
  readonly offer: (row: ChangeRow) => void
}
interface Changes {
  readonly targets: Map<string, { readonly agentId: string; readonly stackId: string }>
  /** Agents that must poll. */
  readonly agentIds: Set<string>
  readonly stackIds: Set<string>
  readonly orderIds: Set<string>
}
const createChanges = (agentIds: readonly string[] = []): Changes => ({
  targets: new Map(),
  agentIds: new Set(agentIds),
  stackIds: new Set(),
  orderIds: new Set(),
})
/** Agents that must poll are not counted: there are no more of them than agents. */
const countReads = ({ targets, stackIds, orderIds }: Changes): number => targets.size + stackIds.size + orderIds.size

/** More changes than this are not read: agents are told to poll. */
const changesMax = 10_000

interface PushDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly log: Log
  readonly sockets: Pick<AgentSockets, 'list' | 'push' | 'count'>
}

export function createChangePusher(deps: PushDeps): ChangePusher {
  let changes = createChanges()
  let isScheduled = false
  // Changes that arrive during a push form the next batch, in which each id occurs once.
  const pushAll = async () => {
    for (let batch = changes; countReads(batch) + batch.agentIds.size > 0; batch = changes) {
      changes = createChanges()
      await pushChanges(deps, batch)
    }
    isScheduled = false
  }
  return {
    offer: (row) => {
      if (deps.sockets.count === 0 || !collect(changes, row)) return
      if (countReads(changes) > changesMax) changes = createChanges(deps.sockets.list().map(({ agentId }) => agentId))
      if (isScheduled) return
      isScheduled = true
      setImmediate(() => void pushAll())
    },
  }
}

/** Returns whether the row matters to sockets. */
function collect({ targets, agentIds, stackIds, orderIds }: Changes, row: ChangeRow): boolean {
  const { scope_kind, scope_id, object_kind, object_id, op } = row
  if (object_kind === 'work_order' && object_id !== null && criterionScopes.has(scope_kind)) return Boolean(orderIds.add(object_id))
  if (scope_kind === 'stack') return Boolean(stackIds.add(scope_id))
  if (scope_kind !== 'agent') return false
  if (object_kind === 'target' && op === 'insert' && object_id !== null)
    return Boolean(targets.set(`${scope_id} ${object_id}`, { agentId: scope_id, stackId: object_id }))
  return Boolean(agentIds.add(scope_id))
}

/** Scopes of the criteria by which work orders find agents. */
const criterionScopes: ReadonlySet<string> = new Set(['agent', 'label', 'annotation'])

/** Never rejects. */
async function pushChanges(deps: PushDeps, changes: Changes): Promise<void> {
  const connectedIds = deps.sockets.list().map(({ agentId }) => agentId)
  const connected = new Set(connectedIds)
  const targets = [...changes.targets.values()].filter(({ agentId }) => connected.has(agentId))
  const poll = (agentId: string) => deps.sockets.push(agentId, 'target_changed', toPollFrame(agentId))
  for (const agentId of changes.agentIds) poll(agentId)
  try {
    for (const { id, agent_id, stack_id } of await readTargets(deps.sql, targets))
      deps.sockets.push(agent_id, 'target_changed', toFrame('target_changed', { id, agent_id, stack_id }))
    for (const ids of connectedIds.length === 0 ? [] : chunk([...changes.stackIds])) await pushStacks(deps, ids, connectedIds)
    for (const ids of connectedIds.length === 0 ? [] : chunk([...changes.orderIds])) await pushOrders(deps, ids, connectedIds, poll)
  } catch (error) {
    deps.log.warn('changes not read for sockets, agents told to poll', { error: error as Error })
    for (const agentId of changes.stackIds.size + changes.orderIds.size > 0 ? connectedIds : targets.map((target) => target.agentId))
      poll(agentId)
  }
}

/** Stacks or orders that are read at once, each with all its agents. */
const chunkSize = 50

const chunk = (ids: readonly string[]): string[][] =>
  Array.from({ length: Math.ceil(ids.length / chunkSize) }, (_, at) => ids.slice(at * chunkSize, (at + 1) * chunkSize))

async function readTargets(sql: Sql, targets: readonly { agentId: string; stackId: string }[]) {
  if (targets.length === 0) return []
  return liveStore.targetsAmong(sql, {
    agent_ids: targets.map(({ agentId }) => agentId),
    stack_ids: targets.map(({ stackId }) => stackId),
  })
}

async function pushStacks({ sql, sockets }: PushDeps, stack_ids: string[], agent_ids: string[]): Promise<void> {
  const texts = new Map<string, string>()
  for (const { agent_id, ...stack } of await liveStore.stacksOfAgents(sql, { stack_ids, agent_ids })) {
    const text = texts.get(stack.id) ?? toFrame('stack_changed', stack)
    texts.set(stack.id, text)
    sockets.push(agent_id, 'stack_changed', text)
  }
}

/** An order with a larger text is not pushed: its agents are told to poll. */
const orderBytesMax = 64 * 1024

async function pushOrders(
  { sql, seal, sockets }: PushDeps,
  order_ids: string[],
  agent_ids: string[],
  poll: (agentId: string) => void,
): Promise<void> {
  const matches = await liveStore.ordersOfAgents(sql, { order_ids, agent_ids })
  const ids = [...new Set(matches.flatMap(({ work_order_id, bytes }) => (bytes > orderBytesMax ? [] : [work_order_id])))]
  const orders = ids.length === 0 ? [] : await workOrders.among(sql, { ids })
  const texts = new Map(orders.map((order) => [order.id, toFrame('work_order', openOrder(seal, order))]))
  const pollingIds = new Set<string>()
  for (const { agent_id, work_order_id, bytes } of matches) {
    const text = texts.get(work_order_id)
    if (text !== undefined) sockets.push(agent_id, 'work_order', text)
    else if (bytes > orderBytesMax) pollingIds.add(agent_id)
  }
  for (const agentId of pollingIds) poll(agentId)
}
