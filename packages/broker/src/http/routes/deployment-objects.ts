// Revisions: submit, preview, go back, list, read.
import type { DeploymentObject } from '@brokkr/contract/deployment-object.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { previewSubmission } from '../../actions/preview-submission.ts'
import { rollbackStack } from '../../actions/rollback-stack.ts'
import { objectOf, submitDeploymentObject } from '../../actions/submit-deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { sealedYaml } from '../../domain/sealed-yaml.ts'
import * as deploymentObjects from '../../store/deployment-objects.ts'
import { withTagOf } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { highestSequence } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'
import { openTexts } from './open-texts.ts'
import { seesDeleted } from './sees-deleted.ts'

export const handleCreate: Handler<'createDeploymentObject', BrokerDeps> = async (deps, request) => {
  const { yaml_content, is_deletion_marker } = request.body
  const { manifest_validation: validation } = deps.config.broker
  const stackId = request.params.id
  const expectedSequenceId = request.query.expected_sequence_id
  if (request.query.dry_run) {
    request.reply.setStatus(200)
    return previewSubmission(deps, { stackId, expectedSequenceId, text: is_deletion_marker ? null : yaml_content, validation })
  }
  const { warnings } = is_deletion_marker ? { warnings: [] } : await deps.manifests.check(yaml_content, validation)
  const object = await submitDeploymentObject(deps, {
    stackId,
    yamlContent: yaml_content,
    isDeletionMarker: is_deletion_marker,
    expectedSequenceId,
    by: actorOf(request),
  })
  return warnings.length === 0 ? object : { ...object, warnings: [...warnings] }
}

export const handleRollback: Handler<'rollbackStack', BrokerDeps> = (deps, request) => {
  const { sequence_id, deployment_object_id, expected_sequence_id, reason } = request.body
  return rollbackStack(deps, {
    stackId: request.params.id,
    objectId: deployment_object_id ?? null,
    sequenceId: sequence_id ?? null,
    expectedSequenceId: expected_sequence_id ?? null,
    reason: reason ?? null,
    by: actorOf(request),
  })
}

export const handleList: Handler<'listDeploymentObjects', BrokerDeps> = async ({ sql, texts }, request) => {
  const { params, query } = request
  const with_deleted = seesDeleted(request, 'owners')
  const rows = await page(request, highestSequence, {
    name: 'listDeploymentObjects',
    cap: 100,
    read: ({ after: [after_sequence], limit }) => deploymentObjects.list(sql, { stack_id: params.id, after_sequence, with_deleted, limit }),
    bytesOf: ({ yaml_bytes }) => 512 + (query.content ? yaml_bytes : 0),
  })
  const opened = query.content ? await openTexts({ sql, texts }, rows) : new Map<string, string>()
  return rows.map((row) => ({ ...row, yaml_content: opened.get(row.id) ?? '' }) as unknown as DeploymentObject)
}

const yamlTypes = /\b(application\/yaml|text\/yaml|application\/x-yaml)\b/

export const handleGet: Handler<'getDeploymentObject', BrokerDeps> = async ({ sql, seal }, request) => {
  const { params, headers, reply } = request
  const row = await deploymentObjects.get(sql, { id: params.id, with_deleted: seesDeleted(request, 'owners') })
  if (row === null) throw new ApiError('deployment_object_not_found', 'no such deployment object')
  reply.setHeader('vary', 'accept')
  return withTagOf(request, `"${row.yaml_checksum}"`, () => {
    const text = seal.open(sealedYaml(row.id), row.yaml_sealed)
    return yamlTypes.test(headers['accept'] ?? '') ? reply.text('application/yaml', text) : objectOf(row, text)
  })
}
