// Revisions: submit, preview, go back, list, read.
import { ApiError } from '@brokkr/contract/error.ts'
import { previewSubmission } from '../../actions/preview-submission.ts'
import { rollbackStack } from '../../actions/rollback-stack.ts'
import { objectOf, submitDeploymentObject } from '../../actions/submit-deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { readManifest } from '../../domain/read-manifest.ts'
import { sealedYaml } from '../../domain/sealed-yaml.ts'
import * as deploymentObjects from '../../store/deployment-objects.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 100

export const handleCreate: Handler<'createDeploymentObject', BrokerDeps> = async (deps, request) => {
  const { yaml_content, is_deletion_marker } = request.body
  const { documents, warnings } = is_deletion_marker
    ? { documents: [], warnings: [] }
    : readManifest(yaml_content, deps.config.broker.manifest_validation)
  const stackId = request.params.id
  const expectedSequenceId = request.query.expected_sequence_id
  if (request.query.dry_run) {
    request.reply.setStatus(200)
    return previewSubmission(deps, { stackId, expectedSequenceId, documents, warnings })
  }
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

export const handleList: Handler<'listDeploymentObjects', BrokerDeps> = async ({ sql, seal }, { params, query }) => {
  const rows = await deploymentObjects.listLive(sql, { stack_id: params.id, limit: listMax })
  return rows.map((row) => objectOf(row, query.content ? seal.open(sealedYaml(row.id), row.yaml_sealed) : ''))
}

const yamlTypes = /\b(application\/yaml|text\/yaml|application\/x-yaml)\b/

export const handleGet: Handler<'getDeploymentObject', BrokerDeps> = async ({ sql, seal }, { params, headers, reply }) => {
  const row = await deploymentObjects.get(sql, { id: params.id })
  if (row === null) throw new ApiError('deployment_object_not_found', 'no such deployment object')
  const text = seal.open(sealedYaml(row.id), row.yaml_sealed)
  reply.setHeader('etag', `"${row.yaml_checksum}"`)
  return yamlTypes.test(headers['accept'] ?? '') ? reply.text('application/yaml', text) : objectOf(row, text)
}
