// Inserts the manifest of an earlier deployment object again under a number that the caller took; the new object references its source.
import type { Sql } from '@brokkr/postgres'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { toManifestContext } from '../rules/sealed-manifest.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import { sealText, toNewRow } from './submit-deployment-object.ts'

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
