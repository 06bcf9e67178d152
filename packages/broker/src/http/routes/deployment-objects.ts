// Revisions: submit, list, read, and the polled list of what an agent should run.

import type { TargetStateItem } from '@brokkr/contract/deployment-object.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { ManifestError, manifestWarnings, parseManifest } from '@brokkr/contract/manifest.ts'
import { objectOf, submitDeploymentObject } from '../../actions/submit-deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { digestOf } from '../../domain/digest-of.ts'
import { sealedYaml } from '../../domain/sealed-yaml.ts'
import * as agentEvents from '../../store/agent-events.ts'
import * as deploymentObjects from '../../store/deployment-objects.ts'
import * as wanted from '../../store/wanted.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 100

export const handleCreate: Handler<'createDeploymentObject', BrokerDeps> = async (deps, request) => {
  const { yaml_content, is_deletion_marker } = request.body
  const warnings = is_deletion_marker ? [] : readManifest(yaml_content, deps.config.broker.manifest_validation)
  const object = await submitDeploymentObject(deps, {
    stackId: request.params.id,
    yamlContent: yaml_content,
    isDeletionMarker: is_deletion_marker,
    expectedSequenceId: request.query.expected_sequence_id,
    by: actorOf(request),
  })
  return warnings.length === 0 ? object : { ...object, warnings }
}

/** Refuses text that no agent could read, with its place and never its content; tells what merely looks odd. */
function readManifest(text: string, validation: 'lenient' | 'strict'): string[] {
  try {
    const documents = parseManifest(text)
    if (documents.length === 0)
      throw new ApiError(
        'invalid_deployment_object',
        'the manifest holds no object; to remove what the stack deployed, submit a deletion marker',
      )
    const warnings = manifestWarnings(documents)
    if (validation === 'strict' && warnings[0] !== undefined) throw new ApiError('invalid_deployment_object', warnings[0])
    return warnings
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error
    const { line, column, limit } = error
    throw new ApiError('invalid_deployment_object', error.message, { details: { line, column, ...(limit === undefined ? {} : { limit }) } })
  }
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

/** Absence in a full list counts only with its count and digest, and an incremental one is never evidence of absence. */
export const handleTargetState: Handler<'getTargetState', BrokerDeps> = async ({ sql, seal }, { params, query, headers, reply }) => {
  const rows = await wanted.listForAgent(sql, { agent_id: params.id })
  const listed = rows.filter((row) => row.object_id !== null && (row.kind === 'wanted' || row.is_deletion_marker === true))
  if (query.mode === 'full') {
    const { count, digest } = digestOf(listed)
    reply.setHeader('x-brokkr-count', String(count))
    reply.setHeader('x-brokkr-digest', digest)
    reply.setHeader('etag', `"${digest}"`)
    return headers['if-none-match'] === `"${digest}"` ? reply.empty(304) : itemsOf({ sql, seal }, listed)
  }
  const acknowledged = await agentEvents.acknowledgedAmong(sql, { agent_id: params.id, ids: listed.map((row) => row.object_id!) })
  const seen = new Set(acknowledged.map((row) => row.deployment_object_id))
  return itemsOf(
    { sql, seal },
    listed.filter((row) => !seen.has(row.object_id!)),
  )
}

async function itemsOf(
  { sql, seal }: Pick<BrokerDeps, 'sql' | 'seal'>,
  listed: Awaited<ReturnType<typeof wanted.listForAgent>>,
): Promise<TargetStateItem[]> {
  const rows = await deploymentObjects.among(sql, { ids: listed.map((row) => row.object_id!) })
  const byObject = new Map<string, (typeof listed)[number]>(listed.map((row) => [row.object_id!, row]))
  return rows.map((row) => {
    const { stack_name, rev, drift } = byObject.get(row.id)!
    return { ...objectOf(row, seal.open(sealedYaml(row.id), row.yaml_sealed)), stack_name: stack_name!, rev: rev!, drift: drift! }
  })
}
