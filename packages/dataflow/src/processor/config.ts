// What a processor is started with besides its spec: flags, and the environment that the operator sets.
import { hostname } from 'node:os'
import { type LogLevel, logLevels } from '@brokkr/runtime/log.ts'
import { defaultSettings, type FlowSettings } from './flow-settings.ts'

export interface ProcessorFlags {
  readonly specPath: string
  readonly namespace: string
  readonly name: string
  readonly bounded?: boolean
  readonly metricsPort?: string
  /** A file instead of the ConfigMap, for a processor outside a cluster. */
  readonly checkpointFile?: string
}

export interface ProcessorConfig {
  readonly specPath: string
  readonly identity: { readonly namespace: string; readonly name: string }
  readonly isBounded: boolean
  readonly metricsPort: number
  readonly checkpointFile: string | undefined
  readonly kubeconfig: string | undefined
  readonly allowLoopback: boolean
  readonly logLevel: LogLevel
  readonly pod: string
  readonly settings: FlowSettings
}

export class BadStart extends Error {
  override name = 'BadStart'
}

type Env = Readonly<Record<string, string | undefined>>

export function readProcessorConfig(flags: ProcessorFlags, env: Env): ProcessorConfig {
  return {
    specPath: flags.specPath,
    identity: { namespace: flags.namespace, name: flags.name },
    isBounded: flags.bounded === true,
    metricsPort: port(flags.metricsPort ?? '9090'),
    checkpointFile: flags.checkpointFile,
    kubeconfig: env['KUBECONFIG'],
    allowLoopback: env['PROCESSOR_ALLOW_LOOPBACK'] === 'true',
    logLevel: level(env['PROCESSOR_LOG_LEVEL'] ?? env['LOG_LEVEL'] ?? 'info'),
    pod: env['POD_NAME'] ?? hostname(),
    settings: settingsFrom(env),
  }
}

function settingsFrom(env: Env): FlowSettings {
  const seconds = (name: string, fallbackMs: number): number => number(env, name, fallbackMs / 1000) * 1000
  return {
    ...defaultSettings,
    sinkRetriesMax: number(env, 'PROCESSOR_SINK_ERROR_MAX_RETRIES', defaultSettings.sinkRetriesMax),
    progressTimeoutMs: seconds('PROCESSOR_PROGRESS_TIMEOUT_SECONDS', defaultSettings.progressTimeoutMs),
    blockedEveryMs: seconds('PROCESSOR_BLOCKED_RETRY_SECONDS', defaultSettings.blockedEveryMs),
    blockedAfterMs: seconds('PROCESSOR_BLOCKED_AFTER_SECONDS', defaultSettings.blockedAfterMs),
    commitEveryMs: seconds('PROCESSOR_COMMIT_SECONDS', defaultSettings.commitEveryMs),
    drainMs: seconds('PROCESSOR_DRAIN_SECONDS', defaultSettings.drainMs),
    lagEveryMs: seconds('PROCESSOR_LAG_SECONDS', defaultSettings.lagEveryMs),
  }
}

function number(env: Env, name: string, fallback: number): number {
  const text = env[name]
  if (text === undefined || text.trim() === '') return fallback
  const value = Number(text)
  if (!Number.isFinite(value) || value < 0) throw new BadStart(`${name}: "${text}" is not a number of 0 or more`)
  return value
}

function port(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 0 || value > 65_535) throw new BadStart(`--metrics-port: "${text}" is not a port`)
  return value
}

function level(text: string): LogLevel {
  const found = logLevels.find((one) => one === text.toLowerCase())
  if (found === undefined) throw new BadStart(`LOG_LEVEL: "${text}" is not known; use one of: ${logLevels.join(', ')}`)
  return found
}
