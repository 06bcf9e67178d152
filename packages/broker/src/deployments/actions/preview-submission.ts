// Previews a submission: Kubernetes objects that would be added, changed and removed compared with the wanted object, and the targeted agents. Writes
// nothing.
import type { DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../../seal.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import type { ManifestWork, Validation } from '../rules/manifest-job.ts'
import { toManifestContext } from '../rules/sealed-manifest.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import { requireExpectedHead } from './submit-deployment-object.ts'

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
