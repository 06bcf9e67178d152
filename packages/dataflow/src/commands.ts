// Functions of the command line for flows: validation, and preview with samples or with the latest messages of the source.
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { resolveSecrets } from '@brokkr/contract/dataflow/spec/secrets.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { validate } from '@brokkr/contract/dataflow/spec/validate.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createLog, silentLog } from '@brokkr/runtime/logging/log.ts'
import { checkSink, sampleSource } from './connectors/open-connectors.ts'
import { checkSinks, type Preview, previewMessages, sampleMessages } from './processor/preview/preview.ts'
import { startPreviewServer } from './processor/preview/preview-server.ts'
import { type ListedDeadLetter, listDeadLetters } from './processor/replay/list-dead-letters.ts'
import { createRedact } from './processor/secret-values.ts'

export interface ValidationResult {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

export function validateFlow(object: unknown): ValidationResult {
  const { problems, warnings } = validate(object, re2)
  return { problems: problems.map(printProblem), warnings: warnings.map(printProblem) }
}

export interface PreviewOptions {
  /** Payloads, one per line of a file; without samples, the latest messages of the source. */
  readonly samples?: readonly string[]
  readonly fromSource?: number
  readonly checkSink?: boolean
  /** The value of `name/key`; throws if it is unknown. */
  readonly secret: (namespace: string | undefined, name: string, key: string) => Promise<string>
  readonly allowLoopback: boolean
  readonly signal: AbortSignal
}

export async function previewFlow(
  object: unknown,
  options: PreviewOptions,
): Promise<ValidationResult & { readonly previews: readonly Preview[] }> {
  const { flow: validFlow, problems, warnings } = validate(object, re2)
  const result = { problems: problems.map(printProblem), warnings: warnings.map(printProblem) }
  if (validFlow === undefined) return { ...result, previews: [] }
  const needsSecrets = options.fromSource !== undefined || options.checkSink === true
  const flow = needsSecrets ? await withSecrets(validFlow, options.secret) : validFlow
  const { namespace, name } = readIdentity(object)
  const redact = createRedact(flow)
  const context = {
    flow: { namespace, name },
    clock: systemClock,
    log: silentLog,
    allowLoopback: options.allowLoopback,
    signal: options.signal,
    addSecret: (value: string) => redact.add(value),
  }
  try {
    const messages =
      options.fromSource === undefined
        ? sampleMessages(options.samples ?? [])
        : await sampleSource(flow.source, context, options.fromSource)
    const previewed = previewMessages(flow, messages, systemClock.now())
    if (options.checkSink === true) await checkSinks(flow, previewed, { check: (sink, records) => checkSink(sink, context, records) })
    return { ...result, previews: previewed.previews }
  } catch (error) {
    throw new Error(redact(errorText(error)), { cause: error })
  }
}

export type DeadLetterOptions = Pick<PreviewOptions, 'secret' | 'allowLoopback' | 'signal'> & { readonly count: number }

/** The newest dead letters of a stored flow. */
export async function readDeadLetters(object: unknown, options: DeadLetterOptions): Promise<ListedDeadLetter[]> {
  const { flow: validFlow, problems } = validate(object, re2)
  if (validFlow === undefined) throw new Error(`the flow is invalid: ${problems.map(printProblem).join('; ')}`)
  const flow = await withSecrets(validFlow, options.secret)
  const { allowLoopback, signal } = options
  const redact = createRedact(flow)
  const addSecret = (value: string) => redact.add(value)
  try {
    return await listDeadLetters(
      flow,
      { flow: readIdentity(object), clock: systemClock, log: silentLog, allowLoopback, signal, addSecret },
      options.count,
    )
  } catch (error) {
    throw new Error(redact(errorText(error)), { cause: error })
  }
}

async function withSecrets(flow: Flow, secret: PreviewOptions['secret']): Promise<Flow> {
  const values = new Map<string, string>()
  for (const { ref, path } of flow.secrets) values.set(path, await secret(ref.namespace, ref.name, ref.key))
  return resolveSecrets(flow, (_ref, { path }) => values.get(path)!)
}

function readIdentity(object: unknown): { namespace: string; name: string } {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; namespace?: unknown } }
  const { name, namespace } = metadata ?? {}
  return { namespace: typeof namespace === 'string' ? namespace : 'default', name: typeof name === 'string' ? name : 'flow' }
}

/** `brokkr dataflow preview`: serves until a signal. */
export async function runPreviewServer(options: { readonly host: string; readonly port: number }): Promise<void> {
  const log = createLog({ name: 'brokkr-dataflow-preview' })
  const server = await startPreviewServer({ clock: systemClock, log }, options)
  log.info('preview server started', { host: options.host, port: server.port })
  const { promise, resolve } = Promise.withResolvers<void>()
  process.once('SIGTERM', resolve).once('SIGINT', resolve)
  await promise
  await server.close()
}
