// The polled list of what an agent should run.
import type { TargetStateItem } from '@brokkr/contract/deployment-object.ts'
import { objectOf } from '../../actions/submit-deployment-object.ts'
import type { BrokerDeps } from '../../deps.ts'
import { digestOf } from '../../domain/digest-of.ts'
import { sealedYaml } from '../../domain/sealed-yaml.ts'
import * as agentEvents from '../../store/agent-events.ts'
import * as deploymentObjects from '../../store/deployment-objects.ts'
import * as wanted from '../../store/wanted.ts'
import type { Handler } from '../handler.ts'

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
