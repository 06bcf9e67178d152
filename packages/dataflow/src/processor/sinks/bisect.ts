// Finds the records that make a sink reject a batch: writes halves in order, down to single records. Good records are written on the way. n
// records with k bad ones need at most 2k(log2 n + 1) + 1 writes, including the first one.
import type { ConnectorError } from '../../connectors/connector.ts'

export interface BisectDeps<T> {
  /** Writes a part; returns the records that were not written, with the error, if the sink rejected it. Retries transient failures
   *  itself. */
  write(part: readonly T[]): Promise<{ readonly entries: readonly T[]; readonly error: ConnectorError } | undefined>
  /** Called in order, before any later record is written. */
  reject(one: T, error: ConnectorError): Promise<void>
}

export async function bisect<T>(deps: BisectDeps<T>, batch: readonly T[], refusal: ConnectorError): Promise<void> {
  if (batch.length === 0) return
  if (batch.length === 1) return deps.reject(batch[0]!, refusal)
  const recordIndex = refusal.recordIndex
  const isNamed = recordIndex !== undefined && Number.isInteger(recordIndex) && recordIndex >= 0 && recordIndex < batch.length
  for (const part of isNamed ? splitAround(batch, recordIndex) : splitInHalves(batch)) {
    const rejected = await deps.write(part)
    if (rejected !== undefined) await bisect(deps, rejected.entries, rejected.error)
  }
}

const splitInHalves = <T>(batch: readonly T[]): (readonly T[])[] => [batch.slice(0, batch.length >> 1), batch.slice(batch.length >> 1)]

/** If the sink named the rejected record: the records before it, the record itself, and those after it are written separately. */
const splitAround = <T>(batch: readonly T[], named: number): (readonly T[])[] =>
  [batch.slice(0, named), batch.slice(named, named + 1), batch.slice(named + 1)].filter((part) => part.length > 0)
