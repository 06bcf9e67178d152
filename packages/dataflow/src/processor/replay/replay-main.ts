// `brokkr dataflow replay`: replays the dead letters of one flow as a job and logs the counts. Exit codes: 0 done (messages that failed
// again are dead letters again), 1 failed, 2 invalid start.
import { writeFile } from 'node:fs/promises'
import { parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { InvalidStart, isWrongConfiguration, readProcessorConfig } from '../config.ts'
import { loadSpec } from '../load-spec.ts'
import { createFlowLog } from '../open-log.ts'
import { createRedact } from '../secret-values.ts'
import { createFlowMetrics } from '../status/flow-metrics.ts'
import { createReplay } from './replay.ts'
import type { Selection } from './stored-dead-letter.ts'

export interface ReplayFlags {
  readonly specPath: string
  readonly namespace: string
  readonly name: string
  /** Of the DataFlow object. */
  readonly uid?: string
  readonly from?: string
  readonly to?: string
  readonly max?: string
  /** File for the counts, such as the termination log of a pod. */
  readonly resultFile?: string
}

export async function runReplay(options: { readonly flags: ReplayFlags; readonly env: NodeJS.ProcessEnv }): Promise<void> {
  checkStart()
  const { flags, env } = options
  try {
    const config = readProcessorConfig(flags, env)
    const { flow, processorSpec, specHash } = await loadSpec(config.specPath, config.identity)
    const redact = createRedact(flow, processorSpec.secretPlaces)
    const log = createFlowLog(config, redact)
    const { identity, allowLoopback, settings } = config
    const uid = flags.uid ?? `${identity.namespace}-${identity.name}`
    const replay = createReplay(
      { clock: systemClock, log, metrics: createFlowMetrics(createMetrics(), identity), redact },
      { flow, identity, uid, specHash, selection: parseSelection(flags), allowLoopback, settings },
    )
    process.on('SIGTERM', () => replay.pipeline.stop()).on('SIGINT', () => replay.pipeline.stop())
    const counts = await replay.run()
    log.info('replay ended', { ...counts })
    if (flags.resultFile !== undefined) await writeFile(flags.resultFile, JSON.stringify(counts))
    process.exit(0)
  } catch (error) {
    process.stderr.write(`brokkr dataflow replay ended: ${errorText(error)}\n`)
    process.exit(isWrongConfiguration(error) ? wrongConfigurationExitCode : 1)
  }
}

function parseSelection({ from, to, max }: ReplayFlags): Selection {
  return { fromMs: parseTime('--from', from), toMs: parseTime('--to', to), max: parseCount(max) }
}

function parseTime(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (parseInstant(text) === undefined) throw new InvalidStart(`${flag}: "${text}" is not an RFC3339 time`)
  return Date.parse(text)
}

function parseCount(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidStart(`--max: "${text}" is not a number of 1 or more`)
  return value
}
