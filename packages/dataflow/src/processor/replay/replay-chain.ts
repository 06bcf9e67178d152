// The chain of a replay: what a sink refused had passed the chain and goes straight back to that sink; what failed before runs through
// all of it again.
import { routesOf, type Transformation } from '@brokkr/contract/dataflow/types.ts'
import type { Chain, Outcome } from '../chain.ts'
import { type Message, withRoute, workingCopy } from '../message.ts'
import { TransformError } from '../transform.ts'
import { isOmitted, type Letter } from './letter.ts'
import type { LetterBook } from './letter-book.ts'

export interface ReplayChainOptions {
  /** `namespace/name` of the flow whose letters are meant. */
  readonly flow: string
  readonly transformations: readonly Transformation[]
}

const drop = (reason: 'foreign' | 'omitted'): Outcome => ({ do: 'drop', reason })

export function replayChain(chain: Chain, book: LetterBook, options: ReplayChainOptions): Chain {
  const routes = new Map(routesOf(options.transformations).map(({ id, name, condition }) => [name ?? condition.text, id]))
  const refused = (message: Message, { error }: Letter): Outcome => {
    const id = routes.get(error.route)
    if (id === undefined && error.route !== 'default') return goneRoute(error.route)
    return { do: 'write', records: [withRoute(workingCopy(message), message.metadata, id)] }
  }
  return {
    ...chain,
    run: (message, nowMs) => {
      const letter = book.of(message)
      if (letter === undefined || letter.error.flow !== options.flow) return drop('foreign')
      if (isOmitted(letter)) return drop('omitted')
      return letter.error.stage === 'sink' ? refused(message, letter) : chain.run(message, nowMs)
    },
  }
}

/** The main sink is no place for what was meant for another. */
const goneRoute = (name: string): Outcome => ({
  do: 'fail',
  error: new TransformError('replay', name, 'the flow has no such route any more'),
  step: { index: 0, type: 'router' },
})
