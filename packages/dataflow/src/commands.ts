// What the command line does with a flow in its own process: judge it, and try it on samples or on the newest messages of its source.
import { printProblem } from '@brokkr/contract/dataflow/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import { resolveSecrets } from '@brokkr/contract/dataflow/secrets.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { validate } from '@brokkr/contract/dataflow/validate.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createLog, silentLog } from '@brokkr/runtime/log.ts'
import { checkSink, sampleSource } from './processor/open-connectors.ts'
import { checkSinks, type Preview, previewMessages, sampleMessages } from './processor/preview.ts'
import { startPreviewServer } from './processor/preview-server.ts'
import { createRedact } from './processor/secret-values.ts'

export interface Judged {
  readonly problems: readonly string[]
  readonly warnings: readonly string[]
}

export function validateFlow(object: unknown): Judged {
  const { problems, warnings } = validate(object, re2)
  return { problems: problems.map(printProblem), warnings: warnings.map(printProblem) }
}

export interface PreviewOptions {
  /** Payloads, one per line of a file; else the newest of the source. */
  readonly samples?: readonly string[]
  readonly fromSource?: number
  readonly checkSink?: boolean
  /** The value of `name/key`; throws for one that is not known. */
  readonly secret: (namespace: string | undefined, name: string, key: string) => Promise<string>
  readonly allowLoopback: boolean
  readonly signal: AbortSignal
}

export async function previewFlow(object: unknown, options: PreviewOptions): Promise<Judged & { readonly previews: readonly Preview[] }> {
  const { flow: read, problems, warnings } = validate(object, re2)
  const judged = { problems: problems.map(printProblem), warnings: warnings.map(printProblem) }
  if (read === undefined) return { ...judged, previews: [] }
  const needsSecrets = options.fromSource !== undefined || options.checkSink === true
  const flow = needsSecrets ? await withSecrets(read, options.secret) : read
  const { namespace, name } = identityOf(object)
  const context = {
    flow: { namespace, name },
    clock: systemClock,
    log: silentLog,
    allowLoopback: options.allowLoopback,
    signal: options.signal,
  }
  try {
    const messages =
      options.fromSource === undefined
        ? sampleMessages(options.samples ?? [])
        : await sampleSource(flow.source, context, options.fromSource)
    const previewed = previewMessages(flow, messages, systemClock.now())
    if (options.checkSink === true) await checkSinks(flow, previewed, { check: (sink, records) => checkSink(sink, context, records) })
    return { ...judged, previews: previewed.previews }
  } catch (error) {
    throw new Error(createRedact(flow)(errorText(error)), { cause: error })
  }
}

async function withSecrets(flow: Flow, secret: PreviewOptions['secret']): Promise<Flow> {
  const values = new Map<string, string>()
  for (const { ref, path } of flow.secrets) values.set(path, await secret(ref.namespace, ref.name, ref.key))
  return resolveSecrets(flow, (_ref, { path }) => values.get(path)!)
}

function identityOf(object: unknown): { namespace: string; name: string } {
  const { metadata } = (object ?? {}) as { metadata?: { name?: unknown; namespace?: unknown } }
  const { name, namespace } = metadata ?? {}
  return { namespace: typeof namespace === 'string' ? namespace : 'default', name: typeof name === 'string' ? name : 'flow' }
}

/** `brokkr dataflow preview`: serves until a signal. */
export async function runPreviewServer(options: { readonly host: string; readonly port: number }): Promise<void> {
  const log = createLog({ name: 'brokkr-dataflow-preview' })
  const server = await startPreviewServer({ clock: systemClock, log }, options)
  log.info('preview is served', { host: options.host, port: server.port })
  const { promise, resolve } = Promise.withResolvers<void>()
  process.once('SIGTERM', resolve).once('SIGINT', resolve)
  await promise
  await server.close()
}
