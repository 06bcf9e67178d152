// Chain of a replay: a record that a sink rejected goes straight to that sink; a message that failed earlier runs through the whole chain.
import { listRoutes, type Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import { type Message, withRoute, workingCopy } from '../../message/message.ts'
import { TransformError } from '../../transforms/transform.ts'
import type { Chain, ChainOutcome } from '../chain/chain.ts'
import type { InFlightDeadLetters } from './in-flight-dead-letters.ts'
import { hasNoPayload, type StoredDeadLetter } from './stored-dead-letter.ts'

export interface ReplayChainOptions {
  /** `namespace/name` of the flow whose dead letters are replayed. */
  readonly flow: string
  readonly transformations: readonly Transformation[]
}

const drop = (reason: 'foreign' | 'omitted'): ChainOutcome => ({ do: 'drop', reason })

export function createReplayChain(chain: Chain, deadLetters: InFlightDeadLetters, options: ReplayChainOptions): Chain {
  const routes = new Map(listRoutes(options.transformations).map(({ id, name, condition }) => [name ?? condition.text, id]))
  const toSink = (message: Message, { error }: StoredDeadLetter): ChainOutcome => {
    const id = routes.get(error.route)
    if (id === undefined && error.route !== 'default') return failMissingRoute(error.route)
    return { do: 'write', records: [withRoute(workingCopy(message), message.metadata, id)] }
  }
  return {
    ...chain,
    run: (message, nowMs) => {
      const letter = deadLetters.find(message)
      if (letter === undefined || letter.error.flow !== options.flow) return drop('foreign')
      if (hasNoPayload(letter)) return drop('omitted')
      return letter.error.stage === 'sink' ? toSink(message, letter) : chain.run(message, nowMs)
    },
  }
}

/** A record of a removed route must not go to the main sink. */
const failMissingRoute = (name: string): ChainOutcome => ({
  do: 'fail',
  error: new TransformError('replay', name, 'the flow has no such route any more'),
  step: { index: 0, type: 'router' },
})
