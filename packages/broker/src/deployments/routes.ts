// Deployment objects: submit, preview, roll back, list, read, provenance.
import type { DeploymentObject, Provenance } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { mask } from '@brokkr/runtime/secret.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { getPreparedManifest } from '../http/request/large-body.ts'
import { includesDeleted } from '../http/request/query.ts'
import { respondWithTag } from '../http/response/etag.ts'
import { highestSequence } from '../http/response/list-order.ts'
import { readsMasked, textAsJson } from '../http/response/manifests.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { rollbackStack } from './actions/rollback-stack.ts'
import { previewSubmission, submitDeploymentObject, toDeploymentObject } from './actions/submit-deployment-object.ts'
import { openManifests } from './manifest-cache.ts'
import { toManifestContext, toParametersContext } from './rules/stored-manifest.ts'
import * as deploymentObjects from './store/deployment-objects.ts'
import * as renderedObjects from './store/rendered-objects.ts'

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
  const largeText = getPreparedManifest(request.body)?.text
  const object = await submitDeploymentObject(deps, {
    stackId,
    yamlContent: yaml_content,
    isDeletionMarker: is_deletion_marker,
    expectedSequenceId,
    planId: request.query.plan_id,
    largeText,
    actor: toActor(request),
  })
  const response = warnings.length === 0 ? object : { ...object, warnings: [...warnings] }
  return largeText === undefined ? response : { ...response, [textAsJson]: largeText }
}

export const handleRollback: Handler<'rollbackStack', BrokerDeps> = (deps, request) => {
  const { sequence_id, deployment_object_id, expected_sequence_id, reason, hold } = request.body
  return rollbackStack(deps, {
    stackId: request.params.id,
    objectId: deployment_object_id ?? null,
    sequenceId: sequence_id ?? null,
    expectedSequenceId: expected_sequence_id ?? null,
    reason: reason ?? null,
    isHeld: hold ?? false,
    actor: toActor(request),
  })
}

export const handleList: Handler<'listDeploymentObjects', BrokerDeps> = async ({ sql, texts }, request) => {
  const { params, query } = request
  const with_deleted = includesDeleted(request, 'owners')
  const rows = await page(request, highestSequence, {
    name: 'listDeploymentObjects',
    cap: 100,
    read: ({ after: [after_sequence], limit }) => deploymentObjects.list(sql, { stack_id: params.id, after_sequence, with_deleted, limit }),
    bytesOf: ({ yaml_bytes }) => 512 + (query.content ? yaml_bytes : 0),
  })
  const manifestById = query.content ? await openManifests({ sql, texts }, rows) : new Map<string, string>()
  return rows.map((row) => ({ ...row, yaml_content: manifestById.get(row.id) ?? '' }) as unknown as DeploymentObject)
}

const yamlTypes = /\b(application\/yaml|text\/yaml|application\/x-yaml)\b/

export const handleGet: Handler<'getDeploymentObject', BrokerDeps> = async ({ sql, seal }, request) => {
  const { params, headers, reply } = request
  const row = await deploymentObjects.get(sql, { id: params.id, with_deleted: includesDeleted(request, 'owners') })
  if (row === null) throw new ApiError('deployment_object_not_found', 'no such deployment object')
  reply.setHeader('vary', 'accept')
  return respondWithTag(request, `"${row.yaml_checksum}"`, () => {
    const text = seal.open(toManifestContext(row.id), row.yaml_sealed)
    return yamlTypes.test(headers['accept'] ?? '') ? reply.text('application/yaml', text) : toDeploymentObject(row, text)
  })
}

/** Parameters may contain secrets: callers that see manifests masked get the names only. */
export const handleProvenance: Handler<'getProvenance', BrokerDeps> = async ({ sql, seal }, { params, principal }) => {
  const row = await renderedObjects.readProvenance(sql, { deployment_object_id: params.id })
  if (row === null) throw new ApiError('not_found', 'the deployment object was not rendered from a template')
  const { id, template_id, template_version, parameters_sealed, rendered_at, rollback_of } = row
  const parameters = JSON.parse(seal.open(toParametersContext(id), parameters_sealed)) as Record<string, unknown>
  const shown = readsMasked(principal) ? Object.fromEntries(Object.keys(parameters).map((name) => [name, mask])) : parameters
  const created_by = { kind: row.created_by_kind, id: row.created_by_id }
  return { template_id, template_version, parameters: shown, rendered_at, rollback_of, created_by } as Provenance
}
