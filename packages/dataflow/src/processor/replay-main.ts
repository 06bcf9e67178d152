// `brokkr dataflow replay`: the letters of one flow once more, as a job does it. Prints what became of them. Exit codes: 0 done (letters
// that failed again are letters again), 1 failed, 2 bad spec.
import { parseInstant } from '@brokkr/contract/dataflow/instant.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { BadStart, readProcessorConfig } from './config.ts'
import { loadSpec } from './load-spec.ts'
import { flowMetrics } from './metrics.ts'
import { openLog } from './open-log.ts'
import type { Selection } from './replay/letter.ts'
import { openReplay } from './replay.ts'
import { createRedact } from './secret-values.ts'

export interface ReplayFlags {
  readonly specPath: string
  readonly namespace: string
  readonly name: string
  /** Of the flow's object. */
  readonly uid?: string
  readonly from?: string
  readonly to?: string
  readonly max?: string
}

export async function runReplay(options: { readonly flags: ReplayFlags; readonly env: NodeJS.ProcessEnv }): Promise<void> {
  checkStart()
  const { flags, env } = options
  try {
    const config = readProcessorConfig(flags, env)
    const { flow, orders, specHash } = await loadSpec(config.specPath, config.identity)
    const redact = createRedact(flow, orders.secretPlaces)
    const log = openLog(config, redact)
    const { identity, allowLoopback, settings } = config
    const uid = flags.uid ?? `${identity.namespace}-${identity.name}`
    const replay = openReplay(
      { clock: systemClock, log, metrics: flowMetrics(createMetrics(), identity), redact },
      { flow, identity, uid, specHash, selection: selectionOf(flags), allowLoopback, settings },
    )
    process.on('SIGTERM', () => replay.pipeline.stop()).on('SIGINT', () => replay.pipeline.stop())
    log.info('letters were replayed', { ...(await replay.run()) })
    process.exit(0)
  } catch (error) {
    process.stderr.write(`brokkr dataflow replay ended: ${errorText(error)}\n`)
    process.exit(error instanceof BadStart ? 2 : 1)
  }
}

function selectionOf({ from, to, max }: ReplayFlags): Selection {
  return { fromMs: time('--from', from), toMs: time('--to', to), max: count(max) }
}

function time(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (parseInstant(text) === undefined) throw new BadStart(`${flag}: "${text}" is not an RFC3339 time`)
  return Date.parse(text)
}

function count(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) throw new BadStart(`--max: "${text}" is not a number of 1 or more`)
  return value
}
