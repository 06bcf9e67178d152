// The chain in a worker thread: one job is some messages, its answer their outcomes.
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import { serveJobs } from '@brokkr/runtime/worker-messages.ts'
import { buildChain, type Chain } from './chain.ts'
import { type ChainJob, packOutcomes, unpackMessages } from './chain-pack.ts'

let built: { readonly text: string; readonly chain: Chain } | undefined

serveJobs((input) => {
  const job = input as ChainJob
  const chain = chainOf(job)
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

/** Every job brings its chain; building it once is enough. */
function chainOf(job: ChainJob): Chain {
  const text = JSON.stringify(job.transformations)
  if (built?.text !== text) built = { text, chain: buildChain(job.transformations, { patterns: re2 }) }
  return built.chain
}
