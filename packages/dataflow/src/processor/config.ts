// Configuration of a processor besides its spec: flags, and environment variables that the operator sets.
import { hostname } from 'node:os'
import { ConfigError } from '@brokkr/runtime/config/config-error.ts'
import { readEnvironment } from '@brokkr/runtime/config/environment-settings.ts'
import { count, optional, seconds, setting } from '@brokkr/runtime/config/settings.ts'
import { type LogLevel, logLevels } from '@brokkr/runtime/logging/log.ts'
import { z } from 'zod'
import { defaultSettings, type FlowSettings } from './flow-settings.ts'

export interface ProcessorFlags {
  readonly specPath: string
  readonly namespace: string
  readonly name: string
  readonly bounded?: boolean
  readonly metricsPort?: string
  readonly tapPort?: string
  /** A file instead of the ConfigMap, for a processor outside a cluster. */
  readonly checkpointFile?: string
}

export interface ProcessorConfig {
  readonly specPath: string
  readonly identity: { readonly namespace: string; readonly name: string }
  readonly isBounded: boolean
  readonly metricsPort: number
  readonly tapPort: number
  readonly checkpointFile: string | undefined
  readonly kubeconfig: string | undefined
  readonly allowLoopback: boolean
  readonly logLevel: LogLevel
  readonly pod: string
  readonly settings: FlowSettings
}

export class InvalidStart extends Error {
  override name = 'InvalidStart'
}

/** The configuration or the spec must change before the processor can start. */
export const isWrongConfiguration = (error: unknown): boolean => error instanceof InvalidStart || error instanceof ConfigError

const logLevel = z.string().toLowerCase().pipe(z.enum(logLevels))

type Env = Readonly<Record<string, string | undefined>>

export function readProcessorConfig(flags: ProcessorFlags, env: Env): ProcessorConfig {
  const values = readEnvironment(processorTable, env)
  return {
    specPath: flags.specPath,
    identity: { namespace: flags.namespace, name: flags.name },
    isBounded: flags.bounded === true,
    metricsPort: parsePort('--metrics-port', flags.metricsPort ?? '9090'),
    tapPort: parsePort('--tap-port', flags.tapPort ?? '9093'),
    checkpointFile: flags.checkpointFile,
    kubeconfig: values.KUBECONFIG ?? undefined,
    allowLoopback: values.PROCESSOR_ALLOW_LOOPBACK,
    logLevel: values.PROCESSOR_LOG_LEVEL ?? values.LOG_LEVEL,
    pod: values.POD_NAME ?? hostname(),
    settings: {
      ...defaultSettings,
      sinkRetriesMax: values.PROCESSOR_SINK_ERROR_MAX_RETRIES,
      progressTimeoutMs: values.PROCESSOR_PROGRESS_TIMEOUT_SECONDS * 1000,
      blockedEveryMs: values.PROCESSOR_BLOCKED_RETRY_SECONDS * 1000,
      blockedAfterMs: values.PROCESSOR_BLOCKED_AFTER_SECONDS * 1000,
      stalledAfterMs: values.PROCESSOR_STALLED_AFTER_SECONDS * 1000,
      commitEveryMs: values.PROCESSOR_COMMIT_SECONDS * 1000,
      drainMs: values.PROCESSOR_DRAIN_SECONDS * 1000,
      lagEveryMs: values.PROCESSOR_LAG_SECONDS * 1000,
    },
  }
}

/** Environment variables of the processor; the operator sets them. */
export const processorTable = {
  PROCESSOR_SINK_ERROR_MAX_RETRIES: setting(count, defaultSettings.sinkRetriesMax, {
    description: 'Number of times that a failed write to a sink is retried before the flow fails. 0: no limit.',
    unit: 'retries',
  }),
  PROCESSOR_PROGRESS_TIMEOUT_SECONDS: setting(seconds, defaultSettings.progressTimeoutMs / 1000, {
    description: 'Time after which the liveness probe fails if messages are in flight and no stage has made an attempt.',
  }),
  PROCESSOR_BLOCKED_RETRY_SECONDS: setting(seconds, defaultSettings.blockedEveryMs / 1000, {
    description: 'Pause between two attempts of a rejected message that blocks the flow.',
  }),
  PROCESSOR_BLOCKED_AFTER_SECONDS: setting(seconds, defaultSettings.blockedAfterMs / 1000, {
    description: 'Time after which a sink that rejects the credentials or the request counts as blocked.',
  }),
  PROCESSOR_STALLED_AFTER_SECONDS: setting(seconds, defaultSettings.stalledAfterMs / 1000, {
    description: 'Time without a written record, while input is waiting, after which the flow is reported as stalled.',
  }),
  PROCESSOR_COMMIT_SECONDS: setting(seconds, defaultSettings.commitEveryMs / 1000, {
    description: 'Interval between two commits of the position to the source.',
  }),
  PROCESSOR_DRAIN_SECONDS: setting(seconds, defaultSettings.drainMs / 1000, {
    description: 'Time limit for writing in-flight messages after a signal to stop.',
  }),
  PROCESSOR_LAG_SECONDS: setting(seconds, defaultSettings.lagEveryMs / 1000, {
    description: 'Interval between two measurements of the lag behind the source.',
  }),
  PROCESSOR_ALLOW_LOOPBACK: setting(z.boolean(), false, {
    description: 'Allows connections to loopback addresses, for tests and trials.',
  }),
  PROCESSOR_LOG_LEVEL: optional(logLevel, {
    description: 'Lowest level of log lines that are written: trace, debug, info, warn or error. Overrides LOG_LEVEL.',
  }),
  LOG_LEVEL: setting(logLevel, 'info', { description: 'Lowest level of log lines if PROCESSOR_LOG_LEVEL is not set.' }),
  POD_NAME: optional(z.string(), { description: 'Name of the pod in status reports; without it, the host name.' }),
  KUBECONFIG: optional(z.string(), { description: 'Path of a kubeconfig file, for a processor outside a cluster.' }),
}

function parsePort(flag: string, text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 0 || value > 65_535) throw new InvalidStart(`${flag}: "${text}" is not a port`)
  return value
}
