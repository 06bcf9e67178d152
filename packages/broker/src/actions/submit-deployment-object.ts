// Submits the next revision of a stack: number, row, head, audit in one transaction; the revision is its own row of the feed.
import { createHash } from 'node:crypto'
import type { DeploymentObject } from '@brokkr/contract/deployment-object.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { type Deed, recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { deploymentCreated } from '../domain/webhook-events.ts'
import type { Seal } from '../seal.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { enqueue, isWanted } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'

export interface NewObject {
  readonly stackId: string
  readonly yamlContent: string
  readonly isDeletionMarker: boolean
  readonly expectedSequenceId: number | undefined
  /** The revision whose text this is again. */
  readonly rollbackOf?: string
  readonly by: Actor
}

export async function submitDeploymentObject(
  deps: { sql: Sql; seal: Seal; hooks: Subscriptions; wakeFeed: (stackId?: string) => void },
  input: NewObject,
): Promise<DeploymentObject> {
  const object = await deps.sql.begin(async (sql) => {
    const id = uuid7()
    // Raising the counter locks the stack row, so number order is commit order.
    const taken = await stacks.takeHead(sql, { stack_id: input.stackId, object_id: id })
    if (taken === null) throw new ApiError('stack_not_found', 'no such stack')
    await refuseMovedHead(sql, input)
    const made = makeObject(deps.seal, { ...input, id, sequenceId: taken.sequence_id })
    const ask = (on: Sql) => [deploymentObjects.insert(on, made), recordDeed(on, created(input.by, made))] as const
    // Who is told of it must be looked for; without, the rest needs no further answer.
    if (!(await isWanted(sql, deps.hooks, ['deployment.created']))) return sql.last(ask, ([row]) => row)
    const [row] = await sql.together(ask)
    await enqueue(sql, deps.hooks, [deploymentCreated(row)])
    return row
  })
  deps.wakeFeed(input.stackId)
  return objectOf(object, input.yamlContent)
}

/** The row of a revision, with its text sealed. */
export function makeObject(
  seal: Seal,
  object: Omit<NewObject, 'expectedSequenceId'> & { readonly id: string; readonly sequenceId: number },
) {
  const { id } = object
  return {
    id,
    stack_id: object.stackId,
    sequence_id: object.sequenceId,
    yaml_sealed: seal.seal(sealedYaml(id), object.yamlContent),
    yaml_bytes: Buffer.byteLength(object.yamlContent),
    yaml_checksum: createHash('sha256').update(object.yamlContent).digest('hex'),
    is_deletion_marker: object.isDeletionMarker,
    rollback_of: object.rollbackOf ?? null,
    created_by_kind: object.by.kind,
    created_by_id: object.by.id,
  }
}

const created = (by: Actor, { id, stack_id, sequence_id, is_deletion_marker, yaml_checksum }: ReturnType<typeof makeObject>): Deed => ({
  by,
  action: 'deployment.created',
  on: { type: 'deployment_object', id },
  details: { stack_id, sequence_id, is_deletion_marker, yaml_checksum },
})

/** The row as the wire shows it, with its text beside it. */
export function objectOf(row: deploymentObjects.InsertedObject & { readonly yaml_sealed?: Buffer }, yamlContent: string): DeploymentObject {
  const { yaml_sealed: _sealed, ...shown } = row
  return { ...shown, yaml_content: yamlContent } as DeploymentObject
}

/** The caller has the stack's lock, so that its head stays where it is. */
export async function refuseMovedHead(sql: Sql, { stackId, expectedSequenceId }: Pick<NewObject, 'stackId' | 'expectedSequenceId'>) {
  if (expectedSequenceId === undefined) return
  const { sequence_id } = await deploymentObjects.headSequenceOf(sql, { stack_id: stackId })
  refuseMoved(expectedSequenceId, sequence_id)
}

export function refuseMoved(expected: number | undefined, head: number | null): void {
  if (expected === undefined || expected === (head ?? 0)) return
  throw new ApiError('stack_moved', `the stack is at sequence ${head ?? 0}, not ${expected}: read it again and decide anew`, {
    details: { sequence_id: head ?? 0 },
  })
}
