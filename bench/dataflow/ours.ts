// A flow in a process of its own, as the processor runs it, until everything that was there at its start is written and committed.
// Prints its own seconds, from the first message read to the last write that was acknowledged, as the bare loops do.
import { readFileSync } from 'node:fs'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import { openSink, openSource } from '@brokkr/dataflow/connectors/open-connectors.ts'
import { defaultSettings } from '@brokkr/dataflow/processor/flow-settings.ts'
import { Pipeline } from '@brokkr/dataflow/processor/pipeline/pipeline.ts'
import { createFlowMetrics } from '@brokkr/dataflow/processor/status/flow-metrics.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'

const [specFile, name, until] = process.argv.slice(2) as [string, string, string | undefined]
const identity = { namespace: 'bench', name }
const { flow, problems } = normalize(JSON.parse(readFileSync(specFile, 'utf8')), { patterns: re2, ...identity })
if (flow === undefined) throw new Error(JSON.stringify(problems))
let firstMs = 0
let lastMs = 0
const pipeline = new Pipeline(
  {
    clock: systemClock,
    log: silentLog,
    metrics: createFlowMetrics(createMetrics(), identity),
    checkpoint: undefined,
    redact: Object.assign((text: string) => text, { add: () => {} }),
    openSource: (context) => {
      const source = openSource(flow.source, context)
      const read = source.read.bind(source)
      source.read = async function* (budget) {
        for await (const batch of read(budget)) {
          firstMs ||= performance.now()
          yield batch
        }
      }
      return source
    },
    openSink: ({ spec }, context) => {
      const sink = openSink(spec, context)
      const write = sink.write.bind(sink)
      sink.write = async (...batch) => {
        await write(...batch)
        lastMs = performance.now()
      }
      return sink
    },
  },
  { flow, identity, specHash: '', oneShots: {}, isBounded: until === undefined, allowLoopback: true, settings: defaultSettings },
)
const running = pipeline.run()
if (until !== undefined) {
  // A source without an end: stop once so many messages have ended.
  while (pipeline.progress({ pod: '', version: '' }).processedCount < Number(until)) await systemClock.sleep(10)
  pipeline.stop()
}
const end = await running
const { readCount, writtenCount } = pipeline.progress({ pod: '', version: '' })
if (end.exitCode !== 0) throw new Error(end.reason)
process.stdout.write(`${JSON.stringify({ seconds: (lastMs - firstMs) / 1000, read: readCount, written: writtenCount })}\n`)
process.exit(0)
