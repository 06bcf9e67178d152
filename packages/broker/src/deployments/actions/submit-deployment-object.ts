// Submits a deployment object: sequence number, row, head and audit entry in one transaction. The row itself is its change row in the feed.

import { createHash } from 'node:crypto'
import type { DeploymentObject, DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { type AuditEntry, recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requirePlanned } from '../../plans/actions.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import { enqueueDeliveries, hasSubscriber } from '../../webhooks/delivery/enqueue.ts'
import { deploymentCreated } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import type { ManifestWork, Validation } from '../rules/manifest-job.ts'
import { type LargeManifest, toManifestContext, toParametersContext } from '../rules/stored-manifest.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import * as renderedObjects from '../store/rendered-objects.ts'

export interface NewObject {
  readonly stackId: string
  readonly yamlContent: string
  readonly isDeletionMarker: boolean
  readonly expectedSequenceId: number | undefined
  /** The submission must be what this plan was made for. */
  readonly planId?: string | undefined
  /** Prepared by a worker for large manifests. */
  readonly largeText?: LargeManifest | undefined
  /** The deployment object that a rollback copies. */
  readonly rollbackOf?: string
  /** The template that the manifest was rendered from. */
  readonly provenance?: Provenance
  readonly actor: Actor
}
export interface Provenance {
  readonly templateId: string
  readonly templateVersion: number
  /** JSON. */
  readonly parameters: string
  readonly renderedAt: string
}

export async function submitDeploymentObject(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: (stackId?: string) => void },
  input: NewObject,
): Promise<DeploymentObject> {
  const id = uuid7()
  const text = await sealText(deps.seal, id, input)
  const rendering = input.provenance === undefined ? null : toRendering(deps.seal, id, input.provenance)
  const object = await deps.sql.begin(async (sql) => {
    // Incrementing the counter locks the stack row, so sequence order equals commit order.
    const head = await stacks.takeHead(sql, { stack_id: input.stackId, object_id: id })
    if (head === null) throw new ApiError('stack_not_found', 'no such stack')
    await requireExpectedHead(sql, input)
    if (input.planId !== undefined) {
      const content = { content_checksum: text.yaml_checksum, is_deletion_marker: input.isDeletionMarker }
      await requirePlanned(sql, { planId: input.planId, stackId: input.stackId, ...content })
    }
    const newRow = toNewRow({ ...input, id, text, sequenceId: head.sequence_id })
    const buildQueries = (tx: Sql) =>
      [
        deploymentObjects.insert(tx, newRow),
        recordAuditEntry(tx, toAuditEntry(input, newRow)),
        ...(rendering === null ? [] : [renderedObjects.insert(tx, rendering)]),
      ] as const
    // Without a matching subscription the last statements are pipelined with the commit.
    if (!(await hasSubscriber(sql, deps.subscriptionCache, ['deployment.created']))) return sql.commitWith(buildQueries, ([row]) => row)
    const [row] = await sql.pipeline(buildQueries)
    await enqueueDeliveries(sql, deps.subscriptionCache, [deploymentCreated(row)])
    return row
  })
  deps.wakeFeed(input.stackId)
  return toDeploymentObject(object, input.yamlContent)
}

/** Call it before the transaction, because sealing a large manifest takes time. */
export async function sealText(seal: Seal, id: string, { yamlContent, largeText }: Pick<NewObject, 'yamlContent' | 'largeText'>) {
  if (largeText !== undefined) {
    const { bytes, checksum } = largeText
    return { yaml_sealed: await seal.sealInThread(toManifestContext(id), bytes), yaml_bytes: bytes.length, yaml_checksum: checksum }
  }
  return {
    yaml_sealed: seal.seal(toManifestContext(id), yamlContent),
    yaml_bytes: Buffer.byteLength(yamlContent),
    yaml_checksum: createHash('sha256').update(yamlContent).digest('hex'),
  }
}

interface ObjectInput extends Pick<NewObject, 'stackId' | 'isDeletionMarker' | 'rollbackOf' | 'actor'> {
  readonly id: string
  readonly sequenceId: number
  readonly text: Awaited<ReturnType<typeof sealText>>
}

/** The row to insert, with the sealed manifest. */
export function toNewRow(object: ObjectInput) {
  const { id } = object
  return {
    id,
    stack_id: object.stackId,
    sequence_id: object.sequenceId,
    ...object.text,
    is_deletion_marker: object.isDeletionMarker,
    rollback_of: object.rollbackOf ?? null,
    created_by_kind: object.actor.kind,
    created_by_id: object.actor.id,
  }
}

function toRendering(seal: Seal, objectId: string, { templateId, templateVersion, parameters, renderedAt }: Provenance) {
  const id = uuid7()
  return {
    id,
    deployment_object_id: objectId,
    template_id: templateId,
    template_version: templateVersion,
    parameters_sealed: seal.seal(toParametersContext(id), parameters),
    rendered_at: renderedAt,
  }
}

const toAuditEntry = (
  { actor, provenance }: Pick<NewObject, 'actor' | 'provenance'>,
  { id, stack_id, sequence_id, is_deletion_marker, yaml_checksum }: ReturnType<typeof toNewRow>,
): AuditEntry => ({
  actor,
  action: 'deployment.created',
  resource: { type: 'deployment_object', id },
  details: {
    stack_id,
    sequence_id,
    is_deletion_marker,
    yaml_checksum,
    ...(provenance === undefined ? {} : { template_id: provenance.templateId, template_version: provenance.templateVersion }),
  },
})

/** The row as the API shows it, with its manifest. */
export function toDeploymentObject(
  row: deploymentObjects.InsertedObject & { readonly yaml_sealed?: Buffer },
  yamlContent: string,
): DeploymentObject {
  const { yaml_sealed: _sealed, ...fields } = row
  return { ...fields, yaml_content: yamlContent } as DeploymentObject
}

/** A caller that submits holds the lock of the stack, so the newest object cannot change. */
export async function requireExpectedHead(sql: Sql, { stackId, expectedSequenceId }: Pick<NewObject, 'stackId' | 'expectedSequenceId'>) {
  if (expectedSequenceId === undefined) return
  const { sequence_id } = await deploymentObjects.readHeadSequence(sql, { stack_id: stackId })
  requireExpectedSequence(expectedSequenceId, sequence_id)
}

function requireExpectedSequence(expected: number | undefined, head: number | null): void {
  if (expected === undefined || expected === (head ?? 0)) return
  throw new ApiError(
    'stack_moved',
    `the stack is at sequence ${head ?? 0}, not ${expected}: read it again and retry with its current sequence`,
    {
      details: { sequence_id: head ?? 0 },
    },
  )
}

// Previews a submission: Kubernetes objects that would be added, changed and removed compared with the wanted object, and the targeted agents. Writes
// nothing.

/** A null `text` is a deletion marker, which removes everything. */
export async function previewSubmission(
  { sql, seal, manifests }: { sql: Sql; seal: Seal; manifests: ManifestWork },
  input: { stackId: string; text: string | null; validation: Validation; expectedSequenceId: number | undefined },
): Promise<DryRun> {
  const wanted = await deploymentObjects.readWanted(sql, { stack_id: input.stackId })
  const wantedManifest = wanted === null || wanted.is_deletion_marker ? '' : seal.open(toManifestContext(wanted.id), wanted.yaml_sealed)
  const { warnings, objects } = await manifests.compare(wantedManifest, input.text, input.validation)
  // Objects that wait behind a hold count: the next submission follows the newest one.
  await requireExpectedHead(sql, input)
  const agents = await agentTargets.agentsOfStack(sql, { stack_id: input.stackId })
  return { valid: true, warnings: [...warnings], objects, agents }
}
