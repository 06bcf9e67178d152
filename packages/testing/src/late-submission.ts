// A submission with a commit that the test controls: the rows of the broker in an open transaction.
import { createHash, randomUUID } from 'node:crypto'
import { toManifestContext } from '@brokkr/broker/deployments/rules/stored-manifest.ts'
import { createSeal } from '@brokkr/broker/seal.ts'
import type pg from 'pg'

export type LateSubmission = { readonly objectId: string; readonly sequence: number; commit(): Promise<void>; rollback(): Promise<void> }

/** The sequence number is taken and the change row written; both are invisible before `commit`. */
export async function openSubmission(
  at: { connect: () => Promise<pg.Client>; encryptionKey: string },
  stackId: string,
  text: string,
): Promise<LateSubmission> {
  const seal = createSeal([Buffer.from(at.encryptionKey, 'hex')])
  const client = await at.connect()
  const id = randomUUID()
  await client.query('begin')
  const { rows } = await client.query<{ n: string }>(
    'update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = $2 where id = $1 returning last_sequence as n',
    [stackId, id],
  )
  const checksum = createHash('sha256').update(text).digest('hex')
  await client.query(
    `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind) values ($1, $2, $3, $4, $5, $6, 'admin')`,
    [id, stackId, rows[0]!.n, seal.seal(toManifestContext(id), text), Buffer.byteLength(text), checksum],
  )
  const end = async (how: 'commit' | 'rollback') => {
    await client.query(how)
    await client.end()
  }
  return { objectId: id, sequence: Number(rows[0]!.n), commit: () => end('commit'), rollback: () => end('rollback') }
}
