// What a submission would do: objects that come, change and go against the revision the stack wants now, and the agents that
// would get it. Writes nothing.
import type { DryRun } from '@brokkr/contract/deployment-object.ts'
import type { ManifestWork, Validation } from '../domain/manifest-job.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import type { Seal } from '../seal.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import { refuseMoved } from './submit-deployment-object.ts'

/** `text` null: a deletion marker, which removes everything. */
export async function previewSubmission(
  { sql, seal, manifests }: { sql: Sql; seal: Seal; manifests: ManifestWork },
  input: { stackId: string; text: string | null; validation: Validation; expectedSequenceId: number | undefined },
): Promise<DryRun> {
  const head = await deploymentObjects.headOf(sql, { stack_id: input.stackId })
  const deployed = head === null || head.is_deletion_marker ? '' : seal.open(sealedYaml(head.id), head.yaml_sealed)
  const { warnings, objects } = await manifests.compare(deployed, input.text, input.validation)
  refuseMoved(input.expectedSequenceId, head?.sequence_id ?? null)
  const agents = await agentTargets.agentsOfStack(sql, { stack_id: input.stackId })
  return { valid: true, warnings: [...warnings], objects, agents }
}
