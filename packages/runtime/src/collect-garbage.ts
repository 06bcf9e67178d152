// One collection of the whole heap, now, for a program that has just done something large and will not do it again for a while: V8 keeps what
// it once had for as long as nothing presses.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Stops everything for about a millisecond per MiB that is in use. `last-resort` takes longer and also takes the young generation back to its
 *  first size. Compiled code stays: it would be compiled anew with the next request. */
export function collectGarbage(flavor: 'regular' | 'last-resort' = 'regular'): void {
  set('--expose-gc', '--no-flush-bytecode')
  const gc = runInNewContext('gc') as (how: object) => void
  gc({ type: 'major', flavor })
  set('--no-expose-gc', '--flush-bytecode')
}

const set = (...flags: readonly string[]): void => flags.forEach((flag) => setFlagsFromString(flag))
