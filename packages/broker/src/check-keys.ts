// Before anything is served: can this ring of keys open what is stored? A lost or mistaken key stops the start, because a
// broker without it would hand out holes, and would seal new rows under a key that nobody expects.
import type { Seal } from './seal.ts'
import * as encryptionKeys from './store/encryption-keys.ts'
import type { Sql } from './store/sql.ts'

export async function checkKeys(deps: { sql: Sql; seal: Seal }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await encryptionKeys.lock(sql, {})
    const known = await encryptionKeys.list(sql, {})
    const [sample] = await encryptionKeys.sampleObject(sql, {})
    const opens = sample === undefined ? null : deps.seal.opens(placeOf(sample.id), sample.sealed)
    const problem = ringProblem({ known, ring: deps.seal.fingerprints, opensSample: opens })
    if (problem !== null) throw new Error(problem)
    await encryptionKeys.activate(sql, { fingerprint: deps.seal.fingerprints[0] })
  })
}

const placeOf = (id: string) => ({ table: 'deployment_objects', column: 'yaml_sealed', id })

export interface RingFacts {
  readonly known: readonly encryptionKeys.KnownKey[]
  /** Fingerprints, the sealing key first. */
  readonly ring: readonly string[]
  /** null: nothing is sealed yet, so any ring will do. */
  readonly opensSample: boolean | null
}

/** Pure: null when the ring may serve this database, else why not and what to do. */
export function ringProblem({ known, ring, opensSample }: RingFacts): string | null {
  if (opensSample === null) return null
  const missing = known.filter(({ fingerprint, state }) => state !== 'retired' && !ring.includes(fingerprint))
  const needed = missing.map(({ fingerprint }) => fingerprint).join(', ')
  if (missing.length > 0)
    return `the database holds rows sealed under key ${needed}, and the configured keys are ${ring.join(', ')}: give the key with that fingerprint as broker.encryption_key or in broker.encryption_keys_previous`
  if (opensSample) return null
  return `the database holds sealed rows that none of the configured keys (${ring.join(', ')}) opens: give the key they were sealed with as broker.encryption_key or in broker.encryption_keys_previous`
}
