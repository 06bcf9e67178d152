// Worker thread of the chain: a job is a slice of messages, its result their outcomes.
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { serveJobs } from '@brokkr/runtime/workers/worker-messages.ts'
import { buildChain, type Chain } from './chain.ts'
import { type ChainJob, packOutcomes, unpackMessages } from './chain-codec.ts'

let cachedChain: { readonly text: string; readonly chain: Chain } | undefined

serveJobs((input) => {
  const job = input as ChainJob
  const chain = getChain(job)
  const before = chain.counts.map((count) => ({ ...count }))
  const messages = unpackMessages(job)
  const outcomes = messages.map((message) => chain.run(message, job.nowMs))
  const counts = chain.counts.map((count, at) => ({
    type: count.type,
    messagesIn: count.messagesIn - before[at]!.messagesIn,
    messagesOut: count.messagesOut - before[at]!.messagesOut,
    errors: count.errors - before[at]!.errors,
    keyCollisions: count.keyCollisions - before[at]!.keyCollisions,
  }))
  return packOutcomes(messages, outcomes, counts)
})

/** Every job contains the transformations; the chain is built once per text. */
function getChain(job: ChainJob): Chain {
  const text = JSON.stringify(job.transformations)
  if (cachedChain?.text !== text) cachedChain = { text, chain: buildChain(job.transformations, { patterns: re2 }) }
  return cachedChain.chain
}
