// Plans: create, read, store results of agents, and compare with a submission.
import { createHash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { NewPlanResult, Plan, PlanChange, PlanResult, PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../audit/record.ts'
import type { Actor } from '../audit/rules.ts'
import type { ManifestWork, Validation } from '../deployments/rules/manifest-job.ts'
import { type LargeManifest, toManifestContext } from '../deployments/rules/stored-manifest.ts'
import * as deploymentObjects from '../deployments/store/deployment-objects.ts'
import { uuid7 } from '../rules/uuid7.ts'
import type { Seal } from '../seal.ts'
import * as stacks from '../stacks/store/stacks.ts'
import { digestTargets, findPlanDifferences, toChangesContext, toPlanContext } from './rules.ts'
import * as plans from './store/plans.ts'

// Creates a plan: stores the content with what it is bound to, and one result per targeted agent. A trigger notifies the agents.

export interface PlanRequest {
  readonly stackId: string
  /** Exactly one of the two; a deletion marker needs no content. */
  readonly yamlContent: string | null
  readonly sequenceId: number | null
  readonly isDeletionMarker: boolean
  /** Prepared by a worker for large manifests. */
  readonly largeText?: LargeManifest | undefined
  readonly validation: Validation
  readonly actor: Actor
}
interface PlannedContent {
  readonly text: string
  readonly isDeletionMarker: boolean
}
const validSeconds = 3600
const openPlansMax = 10

export async function createPlan(
  deps: { sql: Sql; seal: Seal; manifests: ManifestWork; wakeFeed: () => void },
  request: PlanRequest,
): Promise<Plan> {
  const { stackId: stack_id, actor } = request
  const content = await readContent(deps, request)
  const id = uuid7()
  const { content_sealed, content_checksum } = await sealContent(deps.seal, id, content.text, request.largeText)
  const plan = await deps.sql.begin(async (sql) => {
    // The lock orders the plan among submissions and other plans of the stack.
    if ((await stacks.lockBounds(sql, { id: stack_id })) === null) throw new ApiError('stack_not_found', 'no such stack')
    const replaced = await makeRoom(sql, { stackId: stack_id, actor })
    const { sequence_id: base_sequence_id } = await deploymentObjects.readHeadSequence(sql, { stack_id })
    const agentIds = (await plans.listTargets(sql, { stack_id })).map(({ agent_id }) => agent_id)
    const bound = {
      base_sequence_id,
      content_checksum,
      is_deletion_marker: content.isDeletionMarker,
      target_digest: digestTargets(agentIds),
    }
    const by = { by_kind: actor.kind, by_id: actor.id }
    const row = await plans.insert(sql, { id, stack_id, ...bound, ...by, content_sealed, valid_seconds: validSeconds })
    await plans.insertResults(sql, { plan_id: id, agent_ids: agentIds })
    const details = { stack_id, base_sequence_id, content_checksum, agents: agentIds.length }
    await recordAuditEntry(sql, {
      actor,
      action: 'plan.created',
      resource: { type: 'stack', id: stack_id },
      details: { plan_id: id, ...details, ...(replaced === null ? {} : { replaced_plan_id: replaced }) },
    })
    return { ...row, agents_total: agentIds.length }
  })
  deps.wakeFeed()
  return plan
}

/** Before the transaction, because sealing a large manifest takes time. */
async function sealContent(seal: Seal, id: string, text: string, largeText: LargeManifest | undefined) {
  const context = toPlanContext(id)
  if (largeText !== undefined)
    return { content_sealed: await seal.sealInThread(context, largeText.bytes), content_checksum: largeText.checksum }
  return { content_sealed: seal.seal(context, text), content_checksum: createHash('sha256').update(text).digest('hex') }
}

async function readContent(
  { sql, seal, manifests }: { sql: Sql; seal: Seal; manifests: ManifestWork },
  { stackId, yamlContent, sequenceId, isDeletionMarker, validation }: PlanRequest,
): Promise<PlannedContent> {
  const text = yamlContent ?? (isDeletionMarker ? '' : null)
  if ((text === null) === (sequenceId === null))
    throw new ApiError('invalid_deployment_object', 'send either yaml_content or sequence_id: the plan is made for one of them')
  if (text !== null) {
    if (!isDeletionMarker) await manifests.check(text, validation)
    return { text, isDeletionMarker }
  }
  const object = await deploymentObjects.findInStack(sql, { stack_id: stackId, id: null, sequence_id: sequenceId })
  if (object === null) throw new ApiError('deployment_object_not_found', 'the stack has no such deployment object')
  return { text: seal.open(toManifestContext(object.id), object.yaml_sealed), isDeletionMarker: object.is_deletion_marker }
}

/** Ends the caller's own oldest open plan if the stack has no room for another one. Plans of other callers stay. */
async function makeRoom(sql: Sql, { stackId: stack_id, actor }: { stackId: string; actor: Actor }): Promise<string | null> {
  const { open } = await plans.countOpen(sql, { stack_id })
  if (open < openPlansMax) return null
  const ended = await plans.endOldest(sql, { stack_id, by_kind: actor.kind, by_id: actor.id })
  if (ended !== null) return ended.id
  throw new ApiError(
    'limit_exceeded',
    `the stack has ${open} open plans of other callers, at most ${openPlansMax} are allowed: wait until one expires`,
    { details: { limit: openPlansMax } },
  )
}

// Reads a plan with the results of its agents. The changes of all agents together are limited; those that do not fit are left out.

/** An agent that has not answered by then is shown as silent. */
const answerSeconds = 60
const changesBytesMax = 8 * 1024 * 1024

export async function readPlan(
  { sql, seal }: { sql: Sql; seal: Seal },
  { planId, agentId }: { planId: string; agentId: string | null },
): Promise<PlanWithResults> {
  const found = await plans.get(sql, { id: planId })
  if (found === null) throw new ApiError('plan_not_found', 'no such plan')
  const { generator_id: _owner, is_expired: _expired, ...plan } = found
  const rows = await plans.listResults(sql, { plan_id: planId, agent_id: null, answer_seconds: answerSeconds })
  const shown = agentId === null ? rows : rows.filter((row) => row.agent_id === agentId)
  const fitting = takeFitting(shown)
  const sealed = await plans.listSealedChanges(sql, { ids: [...fitting] })
  const changes = new Map(sealed.map(({ id, sealed: bytes }) => [id, JSON.parse(seal.open(toChangesContext(id), bytes)) as PlanChange[]]))
  const results = shown.map((row) => toResult(row, changes.get(row.id) ?? [], row.changes_bytes > 0 && !fitting.has(row.id)))
  return { ...(plan as Plan), agents_total: rows.length, results }
}

/** Ids of the first rows whose changes fit together; at least one. */
function takeFitting(rows: readonly plans.ResultRow[]): ReadonlySet<string> {
  let bytes = 0
  return new Set(rows.filter((row, at) => (bytes += row.changes_bytes) <= changesBytesMax || at === 0).map(({ id }) => id))
}

function toResult({ id: _id, changes_bytes: _bytes, ...row }: plans.ResultRow, changes: PlanChange[], hasMore: boolean): PlanResult {
  return { ...row, changes, has_more: hasMore } as PlanResult
}

/** Stores the result of one agent. A repeated report replaces the earlier one. */
export async function reportPlanResult(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  { planId, agentId, result }: { planId: string; agentId: string; result: NewPlanResult },
): Promise<void> {
  const { state, summary, changes } = result
  await deps.sql.begin(async (sql) => {
    const plan = await plans.get(sql, { id: planId })
    if (plan === null) throw new ApiError('plan_not_found', 'no such plan')
    const row = await plans.findResult(sql, { plan_id: planId, agent_id: agentId })
    if (row === null) throw new ApiError('plan_not_targeted', 'the plan does not address this agent, or its stack no longer targets it')
    if (plan.is_expired) throw new ApiError('plan_expired', 'the plan has expired: a new plan needs a new result')
    const changes_sealed = deps.seal.seal(toChangesContext(row.id), JSON.stringify(changes))
    await plans.putResult(sql, { id: row.id, state, reason: result.reason ?? null, summary: JSON.stringify(summary), changes_sealed })
  })
  deps.wakeFeed()
}

// A submission that names a plan is refused unless it is what was planned: same content, same newest object, same targets.

/** The caller holds the lock of the stack and has not inserted the object yet. */
export async function requirePlanned(
  sql: Sql,
  { planId, stackId, ...content }: { planId: string; stackId: string; content_checksum: string; is_deletion_marker: boolean },
): Promise<void> {
  const plan = await plans.get(sql, { id: planId })
  if (plan === null || plan.stack_id !== stackId) throw new ApiError('plan_not_found', 'the stack has no such plan')
  const { sequence_id: base_sequence_id } = await deploymentObjects.readHeadSequence(sql, { stack_id: stackId })
  const targets = await plans.listTargets(sql, { stack_id: stackId })
  const target_digest = digestTargets(targets.map(({ agent_id }) => agent_id))
  const changed = findPlanDifferences(plan, { ...content, base_sequence_id, target_digest })
  if (changed.length === 0) return
  throw new ApiError('plan_outdated', `the plan no longer fits (${changed.join(', ')}): make a new plan and read it before applying`, {
    details: { changed },
  })
}
