// The bound of stacks against a small model: after every step of a random history each reader of what a stack wants agrees with it.
import { hash, randomBytes, randomUUID } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { createAgent } from '../agents/actions/agents.ts'
import * as fleet from '../agents/store/fleet.ts'
import { systemActor } from '../audit/rules.ts'
import { parseSnapshot, toSnapshotProbes } from '../change-feed/reader/cursor.ts'
import * as changeLog from '../change-feed/store/change-log.ts'
import { rollbackStack } from '../deployments/actions/rollback-stack.ts'
import { submitDeploymentObject } from '../deployments/actions/submit-deployment-object.ts'
import { toManifestContext } from '../deployments/rules/stored-manifest.ts'
import * as deploymentObjects from '../deployments/store/deployment-objects.ts'
import { createGenerator } from '../generators/actions/generators.ts'
import * as deploymentHealth from '../health/store.ts'
import { approvePrune } from '../reports/actions/approve-prune.ts'
import * as agentEvents from '../reports/store/agent-events.ts'
import * as agentStackStatus from '../reports/store/agent-stack-status.ts'
import * as pruneApprovals from '../reports/store/prune-approvals.ts'
import { createSeal } from '../seal.ts'
import { addTarget, removeTarget } from '../targeting/actions.ts'
import * as desiredState from '../targeting/store/desired-state.ts'
import * as targetState from '../targeting/store/target-state.ts'
import { freshSubscriptions } from '../webhooks/subscriptions/subscription-cache.ts'
import { holdStack, releaseStack } from './actions/holds.ts'
import { createStack, deleteStack } from './actions/stacks.ts'
import { undeleteStack } from './actions/undelete-stack.ts'
import { BoundsModel, type ModelStack } from './bounds-model.fixture.ts'
import * as stackSummary from './store/stack-summary.ts'
import * as stacks from './store/stacks.ts'

const actor = { ...systemActor, kind: 'admin' as const }
const nil = '00000000-0000-0000-0000-000000000000'
let sql: Database
let deps: {
  sql: Database
  seal: ReturnType<typeof createSeal>
  subscriptionCache: ReturnType<typeof freshSubscriptions>
  wakeFeed: () => void
}
let generatorId: string
beforeAll(async () => {
  sql = openDatabase({ url: (await database()).url, schema: 'public', poolSize: 4 })
  deps = { sql, seal: createSeal([randomBytes(32)]), subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  generatorId = (await createGenerator(deps, { name: 'g', description: null, actor })).generator.id
  return () => sql.close()
})
const exec = (text: string, values: unknown[] = []) => sql.query({ name: hash('sha256', text).slice(0, 32), text, values })

const words = [
  'submit',
  'submit',
  'submit',
  'mark',
  'hold',
  'holdNewest',
  'release',
  'rollBack',
  'rollBackHeld',
  'delete',
  'undelete',
  'retarget',
  'retarget',
  'apply',
  'acknowledge',
] as const // prettier-ignore
const step = fc.record({ word: fc.constantFrom(...words), agent: fc.nat(1), stack: fc.nat(1) })
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never
interface World {
  readonly model: BoundsModel
  readonly agents: string[]
  readonly stacks: string[]
  n: number
}

async function makeWorld(): Promise<World> {
  const world: World = { model: new BoundsModel(), agents: [], stacks: [], n: 0 }
  for (let n = 0; n < 2; n += 1) {
    const name = randomUUID()
    world.agents.push((await createAgent(deps, { name, cluster_name: name, generator_ids: [generatorId], labels: [], actor })).agent.id)
    const input = { name, description: null, generatorId, labels: [], annotations: {}, drift: 'heal', actor }
    world.stacks.push((await createStack(deps, input)).id)
    world.model.addStack(world.stacks[n]!)
  }
  return world
}

/** Does it to the database and to the model; a step that makes no sense at that moment does nothing. */
async function act(world: World, { word, agent: a, stack: s }: Step): Promise<void> {
  const [agentId, stackId] = [world.agents[a]!, world.stacks[s]!]
  const stack = world.model.stacks.get(stackId)!
  if ((word === 'undelete') !== stack.isDeleted) return
  await acts[word]({ world, agentId, stackId, stack })
}

interface Acted {
  readonly world: World
  readonly agentId: string
  readonly stackId: string
  readonly stack: ModelStack
}
const submit = async ({ world, stackId }: Acted, isDeletionMarker: boolean) => {
  const yamlContent = isDeletionMarker ? '' : `a: "${randomUUID()}"`
  const made = await submitDeploymentObject(deps, { stackId, yamlContent, isDeletionMarker, expectedSequenceId: undefined, actor })
  world.model.submit(stackId, { id: made.id, sequence: made.sequence_id, text: yamlContent, isMarker: isDeletionMarker }, 'queue')
}
const rollBack = async ({ world, stackId, stack }: Acted, isHeld: boolean) => {
  const source = stack.objects.findLast(({ isMarker }) => !isMarker)
  if (source === undefined || (stack.held !== null && !isHeld)) return
  const input = { stackId, objectId: source.id, sequenceId: null, expectedSequenceId: null, reason: null, isHeld, actor }
  const made = await rollbackStack(deps, input)
  world.model.submit(stackId, { ...source, id: made.id, sequence: made.sequence_id }, isHeld ? 'hold' : 'queue')
}
const hold = async ({ world, stackId, stack }: Acted, isNewest: boolean) => {
  const object = isNewest ? stack.objects.at(-1) : world.model.wanted(stackId)
  if (object === undefined || object === null) return
  await holdStack(deps, { stackId, sequenceId: isNewest ? object.sequence : null, reason: 'r', actor })
  world.model.bound(stackId, object)
}
const acts: Record<(typeof words)[number], (acted: Acted) => Promise<unknown>> = {
  submit: (acted) => submit(acted, false),
  mark: (acted) => submit(acted, true),
  hold: (acted) => hold(acted, false),
  holdNewest: (acted) => hold(acted, true),
  release: async ({ world, stackId, stack }) => {
    if (stack.held === null) return
    await releaseStack(deps, { stackId, reason: null, actor })
    world.model.bound(stackId, null)
  },
  rollBack: (acted) => rollBack(acted, false),
  rollBackHeld: (acted) => rollBack(acted, true),
  delete: async ({ world, stackId }) => {
    await deleteStack(deps, { stackId, actor })
    world.model.delete(stackId)
  },
  undelete: async ({ world, stackId }) => {
    await undeleteStack(deps, { stackId, actor })
    const newest = (await deploymentObjects.readWantedNumber(sql, { stack_id: stackId }))!
    world.model.undelete(stackId, { id: newest.id, sequence: newest.sequence_id })
  },
  retarget: async ({ agentId, stackId, stack }) => {
    const input = { agentId, stackId, bodyAgentId: agentId, actor }
    await (stack.agents.has(agentId) ? removeTarget : addTarget)(deps, input)
    if (!stack.agents.delete(agentId)) stack.agents.add(agentId)
  },
  /** The agent reports what it was sent. */
  apply: async ({ world, agentId, stackId, stack }) => {
    const wanted = world.model.wanted(stackId)
    if (wanted === null || !stack.agents.has(agentId)) return
    const phase = wanted.isMarker ? 'removed' : 'applied'
    const report = { stack_id: stackId, rev: stack.rev, object_id: wanted.id, phase, attempts: 1 }
    await agentStackStatus.record(sql, { agent_id: agentId, session: 1, n: (world.n += 1), reports: JSON.stringify([report]) })
  },
  acknowledge: async ({ world, agentId, stackId, stack }) => {
    const wanted = world.model.wanted(stackId)
    if (wanted === null || !stack.agents.has(agentId)) return
    await exec(
      `insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status) values ($1, $2, 'APPLIED', 'SUCCESS') on conflict do nothing`,
      [agentId, wanted.id],
    )
    stack.acknowledged.add(`${agentId} ${wanted.id}`)
  },
}

async function expectAgreement(world: World): Promise<void> {
  for (const stackId of world.stacks) await expectStackAgrees(world, stackId)
  for (const agentId of world.agents) await expectAgentAgrees(world, agentId)
  expect(await stackSummary.differences(sql, { limit: 5 })).toEqual([])
  const held = world.stacks.filter((id) => world.model.stacks.get(id)!.held !== null)
  expect((await exec('select count(*)::int as n from holds where stack_id = any($1)', [world.stacks])).rows).toEqual([{ n: held.length }])
}

async function expectStackAgrees({ model }: World, stackId: string): Promise<void> {
  const { rev, isDeleted, held, agents, objects } = model.stacks.get(stackId)!
  const wanted = model.wanted(stackId)
  const [state] = await desiredState.statesWithContent(sql, { stack_ids: [stackId], inline_bytes: 1000 })
  if (isDeleted) return expectDeletedAgrees(state)
  expect(state).toMatchObject({ rev, is_deleted: false, object_id: wanted?.id ?? null, sequence_id: wanted?.sequence ?? null })
  if (wanted !== null) expect(deps.seal.open(toManifestContext(wanted.id), state!.yaml_sealed!)).toBe(wanted.text)
  expect((await desiredState.readDesiredStates(sql, { stack_ids: [stackId] }))[0]).toMatchObject({ rev, object_id: wanted?.id ?? null })
  // The dry run compares with this one.
  expect((await deploymentObjects.readWanted(sql, { stack_id: stackId }))?.id ?? null).toBe(wanted?.id ?? null)
  const statuses = await agentStackStatus.listOfStack(sql, { stack_id: stackId, stale_after_seconds: 90 })
  for (const { agent_id, desired_sequence_id, phase, sequence_id } of statuses) {
    expect(desired_sequence_id).toBe(wanted?.sequence ?? null)
    // A reported removal stays true only while every later object up to the wanted one is a deletion marker as well.
    if (agents.has(agent_id) && phase === 'removed') {
      expect(wanted?.isMarker).toBe(true)
      const later = objects.filter(({ sequence }) => sequence > (sequence_id ?? 0) && sequence <= wanted!.sequence)
      expect(later.filter(({ isMarker }) => !isMarker)).toEqual([])
    }
  }
  const filter = { name: null, generator_id: null, labels: [], keys: [], values: [], after_name: '', after_id: nil, limit: 10_000 }
  const listed = await stacks.countedList(sql, { ...filter, health: null, drifted: null, held: null })
  const applied = statuses.filter(
    ({ agent_id, phase, deployment_object_id: id }) =>
      agents.has(agent_id) && ['applied', 'removed'].includes(phase ?? '') && wanted !== null && id === wanted.id,
  )
  expect(listed.find(({ id }) => id === stackId)).toMatchObject({
    desired_sequence_id: wanted?.sequence ?? null,
    agents_total: agents.size,
    agents_current: applied.length,
    held: held !== null,
  })
}

/** A deleted stack wants its marker. */
function expectDeletedAgrees(state: desiredState.LoadedState | undefined): void {
  expect(state).toMatchObject({ is_deleted: true, is_deletion_marker: true })
}

async function expectAgentAgrees({ model, stacks: stackIds }: World, agentId: string): Promise<void> {
  const own = stackIds.flatMap((id) => (model.stacks.get(id)!.agents.has(agentId) && !model.stacks.get(id)!.isDeleted ? [id] : []))
  const asText = (rows: readonly { stack_id: string | null; rev: number | null; object: string | null }[]) =>
    rows.map(({ stack_id, rev, object }) => `${stack_id} ${rev} ${object}`).toSorted()
  const expected = own.map((id) => ({ stack_id: id, rev: model.stacks.get(id)!.rev, object: model.wanted(id)?.id ?? null }))
  const snapshot = await desiredState.listForAgent(sql, { agent_id: agentId, epoch: nil, boot: nil })
  const wanted = snapshot.filter(({ kind }) => kind === 'wanted').map((row) => ({ ...row, object: row.object_id }))
  expect(asText(wanted)).toEqual(asText(expected))
  const isMarker = (row: { is_deletion_marker: boolean; stack_id: string }) => row.is_deletion_marker && !own.includes(row.stack_id)
  const polled = (await targetState.list(sql, { agent_id: agentId })).filter((row) => !isMarker(row))
  const withObject = expected.filter(({ object }) => object !== null)
  expect(asText(polled.map((row) => ({ ...row, object: row.id })))).toEqual(asText(withObject))
  const isNew = (object: string | null, id: string) => !model.stacks.get(id)!.acknowledged.has(`${agentId} ${object}`)
  const unseen = withObject.filter(({ object, stack_id }) => isNew(object, stack_id))
  const news = (await targetState.listNew(sql, { agent_id: agentId })).filter((row) => !isMarker(row))
  expect(asText(news.map((row) => ({ ...row, object: row.id })))).toEqual(asText(unseen))
  const removals = snapshot.filter(({ kind, is_deleted }) => kind === 'removal' && is_deleted === true).length
  expect((await fleet.get(sql, { id: agentId }))?.pending_object_count).toBe(unseen.length + removals)
}

/** A resuming agent finds every change of what it should have. */
async function expectResumable(world: World, cursor: string, before: ReadonlyMap<string, string>): Promise<void> {
  for (const agentId of world.agents) {
    const rows = await changeLog.sinceForAgent(sql, { agent_id: agentId, ...toSnapshotProbes(parseSnapshot(cursor)) })
    const found = rows.map(({ stack_id }) => stack_id)
    for (const [stackId, stack] of world.model.stacks)
      if (stack.agents.has(agentId) && !stack.isDeleted && before.get(stackId) !== world.model.key(stackId))
        expect(found).toContain(stackId)
  }
}

/** An approval is open for the wanted object alone, and only its acknowledgements and health records are kept for ever. */
async function expectWantedIsKept(world: World): Promise<void> {
  const agentId = world.agents[0]!
  const expected: string[] = []
  for (const stackId of world.stacks) {
    const { isDeleted, objects } = world.model.stacks.get(stackId)!
    const wanted = world.model.wanted(stackId)
    if (isDeleted || wanted === null) continue
    for (const { sequence } of objects) await approvePrune(deps, { agentId, removals: null, stackId, sequenceId: sequence, actor })
    for (const { id } of objects) {
      await exec(
        `insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status) values ($1, $2, 'APPLIED', 'SUCCESS') on conflict do nothing`,
        [agentId, id],
      ) // prettier-ignore
      await exec(
        `insert into deployment_health (id, agent_id, deployment_object_id, status, checked_at) values (gen_random_uuid(), $1, $2, 'healthy', now())`,
        [agentId, id],
      ) // prettier-ignore
    }
    expected.push(wanted.id)
    const open = (await pruneApprovals.listOpen(sql, { agent_id: agentId })).filter((row) => row.stack_id === stackId)
    expect(open.map(({ sequence_id }) => sequence_id)).toEqual([wanted.sequence])
  }
  await exec(`update agent_object_acks set last_at = now() - interval '40 days' where agent_id = $1`, [agentId])
  await exec(`update deployment_health set updated_at = now() - interval '40 days' where agent_id = $1`, [agentId])
  await agentEvents.removeOldAcks(sql, { days: 30, limit: 10_000 })
  await deploymentHealth.removeOld(sql, { days: 30, limit: 10_000 })
  for (const table of ['agent_object_acks', 'deployment_health']) {
    const { rows } = await exec(
      `select k.deployment_object_id as id from ${table} k join deployment_objects o on o.id = k.deployment_object_id join stacks s on s.id = o.stack_id
       where k.agent_id = $1 and s.deleted_at is null`,
      [agentId],
    )
    expect((rows as { id: string }[]).map(({ id }) => id).toSorted()).toEqual(expected.toSorted())
  }
}

test('[S53] after every step of a random history each reader agrees on the object that a stack wants', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 30 }), async (steps) => {
      const world = await makeWorld()
      for (const one of steps) {
        const before = new Map(world.stacks.map((id) => [id, world.model.key(id)]))
        const { rows } = await exec('select pg_current_snapshot()::text as cursor')
        await act(world, one)
        await expectAgreement(world)
        await expectResumable(world, (rows[0] as { cursor: string }).cursor, before)
      }
      await expectWantedIsKept(world)
    }),
    { numRuns: size('bounds.histories'), endOnFailure: true },
  )
}, 3_600_000)
