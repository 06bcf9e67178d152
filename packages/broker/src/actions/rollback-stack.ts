// Submits the text of an earlier revision again, as the next one. History is never rewritten: the new revision says whose
// text it carries.
import type { DeploymentObject } from '@brokkr/contract/deployment-object.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { deploymentCreated } from '../domain/webhook-events.ts'
import type { Seal } from '../seal.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { makeObject, objectOf, refuseMovedHead } from './submit-deployment-object.ts'

export interface Rollback {
  readonly stackId: string
  /** One of the two names the earlier revision. */
  readonly objectId: string | null
  readonly sequenceId: number | null
  readonly expectedSequenceId: number | null
  readonly reason: string | null
  readonly by: Actor
}

export async function rollbackStack(
  deps: { sql: Sql; seal: Seal; hooks: Subscriptions; wakeFeed: (stackId?: string) => void },
  input: Rollback,
): Promise<DeploymentObject> {
  const { stackId, by } = input
  if ((input.objectId === null) === (input.sequenceId === null))
    throw new ApiError('invalid_request_body', 'name the revision to go back to by sequence_id or by deployment_object_id, one of the two')
  const made = await deps.sql.begin(async (sql) => {
    const id = uuid7()
    const taken = await stacks.takeHead(sql, { stack_id: stackId, object_id: id })
    if (taken === null) throw new ApiError('stack_not_found', 'no such stack')
    const earlier = await earlierRevision(sql, input)
    await refuseMovedHead(sql, { stackId, expectedSequenceId: input.expectedSequenceId ?? undefined })
    const yamlContent = deps.seal.open(sealedYaml(earlier.id), earlier.yaml_sealed)
    const again = { id, stackId, yamlContent, isDeletionMarker: false, sequenceId: taken.sequence_id, rollbackOf: earlier.id, by }
    const row = await deploymentObjects.insert(sql, makeObject(deps.seal, again))
    const details = {
      stack_id: stackId,
      sequence_id: row.sequence_id,
      rollback_of: earlier.id,
      from: earlier.sequence_id,
      reason: input.reason,
    }
    await recordDeed(sql, { by, action: 'deployment.rolled_back', on: { type: 'deployment_object', id: row.id }, details })
    await enqueue(sql, deps.hooks, [deploymentCreated(row)])
    return objectOf(row, yamlContent)
  })
  deps.wakeFeed(input.stackId)
  return made
}

async function earlierRevision(sql: Sql, { stackId, objectId, sequenceId }: Rollback) {
  const earlier = await deploymentObjects.ofStack(sql, { stack_id: stackId, id: objectId, sequence_id: sequenceId })
  if (earlier === null) throw new ApiError('deployment_object_not_found', 'the stack has no such revision')
  if (earlier.is_deletion_marker)
    throw new ApiError('rollback_to_marker', 'that revision is a deletion marker: to remove what the stack deployed, submit a new one')
  return earlier
}
