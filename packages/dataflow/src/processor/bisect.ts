// Finds the guilty records of a refused batch: halves in order, each its own write, down to single records. What is not guilty is
// written on the way. n records with k bad ones cost at most 2k(log2 n + 1) + 1 writes, the refused first one included.
import type { ConnectorError } from './connectors/connector.ts'

export interface Bisection<T> {
  /** Writes a part; the error when it was refused. Failures that pass by themselves are its own business. */
  write(part: readonly T[]): Promise<ConnectorError | undefined>
  /** Called in order, before anything behind it is written. */
  guilty(one: T, error: ConnectorError): Promise<void>
}

export async function bisect<T>(deps: Bisection<T>, batch: readonly T[], refusal: ConnectorError): Promise<void> {
  if (batch.length === 0) return
  if (batch.length === 1) return deps.guilty(batch[0]!, refusal)
  const named = refusal.recordIndex
  const isNamed = named !== undefined && Number.isInteger(named) && named >= 0 && named < batch.length
  for (const part of isNamed ? aroundNamed(batch, named) : halves(batch)) {
    const error = await deps.write(part)
    if (error !== undefined) await bisect(deps, part, error)
  }
}

const halves = <T>(batch: readonly T[]): (readonly T[])[] => [batch.slice(0, batch.length >> 1), batch.slice(batch.length >> 1)]

/** A sink that named the record it refused saves the search for it; what stands around it is tried whole, and so is the record. */
const aroundNamed = <T>(batch: readonly T[], named: number): (readonly T[])[] =>
  [batch.slice(0, named), batch.slice(named, named + 1), batch.slice(named + 1)].filter((part) => part.length > 0)
