// What a submission would do: objects that come, change and go against the revision the stack wants now, and the agents that
// would get it. Writes nothing.
import type { DryRun } from '@brokkr/contract/deployment-object.ts'
import { type ManifestDocument, ManifestError, parseManifest } from '@brokkr/contract/manifest.ts'
import { compareManifests } from '../domain/compare-manifests.ts'
import type { ReadManifest } from '../domain/read-manifest.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import type { Seal } from '../seal.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import { refuseMoved } from './submit-deployment-object.ts'

/** No documents: a deletion marker, which removes everything. */
export async function previewSubmission(
  { sql, seal }: { sql: Sql; seal: Seal },
  input: ReadManifest & { stackId: string; expectedSequenceId: number | undefined },
): Promise<DryRun> {
  const head = await deploymentObjects.headOf(sql, { stack_id: input.stackId })
  refuseMoved(input.expectedSequenceId, head?.sequence_id ?? null)
  const deployed = head === null || head.is_deletion_marker ? [] : documentsOf(seal.open(sealedYaml(head.id), head.yaml_sealed))
  const agents = await agentTargets.agentsOfStack(sql, { stack_id: input.stackId })
  return { valid: true, warnings: [...input.warnings], objects: compareManifests(deployed, input.documents), agents }
}

/** What was stored was read once before; should limits have changed since, the new manifest is still told. */
function documentsOf(text: string): ManifestDocument[] {
  try {
    return parseManifest(text, {}, () => undefined)
  } catch (error) {
    if (error instanceof ManifestError) return []
    throw error
  }
}
