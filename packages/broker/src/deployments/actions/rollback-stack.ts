// Submits the manifest of an earlier deployment object again as a new one, which references its source. Earlier objects never change. With
// a hold, the new object, head and bound are one update: no submission can come between.

import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import { recordHold, requireOwnHold } from '../../stacks/actions/holds.ts'
import * as holds from '../../stacks/store/holds.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { deploymentCreated } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { toManifestContext } from '../rules/stored-manifest.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import { requireExpectedHead, sealText, toDeploymentObject, toNewRow } from './submit-deployment-object.ts'

export interface Rollback {
  readonly stackId: string
  /** Exactly one of the two names the earlier deployment object. */
  readonly objectId: string | null
  readonly sequenceId: number | null
  readonly expectedSequenceId: number | null
  readonly reason: string | null
  /** Whether later submissions wait until the hold is released. */
  readonly isHeld: boolean
  readonly actor: Actor
}

export async function rollbackStack(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: (stackId?: string) => void },
  input: Rollback,
): Promise<DeploymentObject> {
  const { stackId, actor } = input
  if ((input.objectId === null) === (input.sequenceId === null))
    throw new ApiError('invalid_request_body', 'name the deployment object to roll back to by either sequence_id or deployment_object_id')
  const object = await deps.sql.begin(async (sql) => {
    const id = uuid7()
    const bounds = await stacks.lockBounds(sql, { id: stackId })
    if (bounds === null) throw new ApiError('stack_not_found', 'no such stack')
    if (bounds.held_object_id !== null) await requireHoldChange(sql, input)
    const head = await (input.isHeld ? stacks.takeHeldHead : stacks.takeHead)(sql, { stack_id: stackId, object_id: id })
    if (head === null) throw new ApiError('stack_not_found', 'no such stack')
    const source = await readSource(sql, input)
    await requireExpectedHead(sql, { stackId, expectedSequenceId: input.expectedSequenceId ?? undefined })
    const { yamlContent, ...row } = await copyObject(sql, deps.seal, { id, stackId, sequenceId: head.sequence_id, source, actor })
    const details = {
      stack_id: stackId,
      sequence_id: row.sequence_id,
      rollback_of: source.id,
      from: source.sequence_id,
      reason: input.reason,
    }
    await recordAuditEntry(sql, { actor, action: 'deployment.rolled_back', resource: { type: 'deployment_object', id: row.id }, details })
    await enqueueDeliveries(sql, deps.subscriptionCache, [deploymentCreated(row)])
    if (input.isHeld) {
      const reason = input.reason || `rollback to sequence ${source.sequence_id}`
      await recordHold(sql, deps.subscriptionCache, { stackId, sequenceId: row.sequence_id, reason, actor })
    }
    return toDeploymentObject(row, yamlContent)
  })
  deps.wakeFeed(input.stackId)
  return object
}

/** A rollback without hold would wait behind the existing hold; one with hold replaces it. */
async function requireHoldChange(sql: Sql, { stackId, isHeld, actor }: Rollback): Promise<void> {
  const hold = await holds.get(sql, { stack_id: stackId })
  if (!isHeld)
    throw new ApiError(
      'stack_held',
      `the stack is held at sequence ${hold?.sequence_id ?? '-'}: release the hold first, or roll back with hold`,
      { details: { sequence_id: hold?.sequence_id ?? null } },
    )
  requireOwnHold(hold, actor)
}

async function readSource(sql: Sql, { stackId, objectId, sequenceId }: Rollback) {
  const source = await deploymentObjects.findInStack(sql, { stack_id: stackId, id: objectId, sequence_id: sequenceId })
  if (source === null) throw new ApiError('deployment_object_not_found', 'the stack has no such deployment object')
  if (source.is_deletion_marker)
    throw new ApiError(
      'rollback_to_marker',
      'the deployment object is a deletion marker: to remove what the stack deployed, submit a new deletion marker',
    )
  return source
}

// Inserts the manifest of an earlier deployment object again under a number that the caller took; the new object references its source.

export interface ObjectCopy {
  readonly id: string
  readonly stackId: string
  readonly sequenceId: number
  readonly source: Pick<deploymentObjects.DeploymentObjectRow, 'id' | 'yaml_sealed'>
  readonly actor: Actor
}

/** The inserted row with its manifest. */
export async function copyObject(sql: Sql, seal: Seal, { id, stackId, sequenceId, source, actor }: ObjectCopy) {
  const yamlContent = seal.open(toManifestContext(source.id), source.yaml_sealed)
  const text = await sealText(seal, id, { yamlContent })
  const row = toNewRow({ id, stackId, text, isDeletionMarker: false, sequenceId, rollbackOf: source.id, actor })
  return { ...(await deploymentObjects.insert(sql, row)), yamlContent }
}
