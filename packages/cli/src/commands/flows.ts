// brokkr flows …: judge a data flow, and try it on samples or on its source, before it is applied anywhere.
import { readFile } from 'node:fs/promises'
import { type JsonObject, ManifestError, parseManifest } from '@brokkr/contract/manifest.ts'
import { previewFlow, validateFlow } from '@brokkr/dataflow/commands.ts'
import { openKube } from '@brokkr/kube/client.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { CliError, print, tell } from '../output.ts'

const kinds = new Set(['DataFlow', 'DataFlowCron'])
const bytesMax = 8 << 20
/** A preview is a look, not a run. */
const samplesMax = 1_000
const lookMs = 60_000

export async function validateFlows(options: { readonly file: string }): Promise<void> {
  const flows = await readFlows(options.file)
  let wrong = 0
  for (const flow of flows) {
    const { problems, warnings } = validateFlow(flow)
    for (const warning of warnings) tell(`${titleOf(flow)}: warning: ${warning}`)
    for (const problem of problems) print(`${titleOf(flow)}: ${problem}`)
    if (problems.length === 0) print(`${titleOf(flow)}: valid`)
    else wrong += 1
  }
  if (wrong > 0)
    throw new CliError(`${wrong} of ${flows.length} flows are invalid`, { where: options.file, next: 'mend the lines above', exitCode: 6 })
}

export interface PreviewFlags {
  readonly file: string
  readonly sample?: string
  readonly fromSource?: string
  readonly checkSink?: boolean
  readonly kubeconfig?: string
  readonly allowLoopback?: boolean
}

export async function previewFlows(options: PreviewFlags): Promise<void> {
  const [flow, second] = await readFlows(options.file)
  if (second !== undefined)
    throw new CliError('the file holds more than one flow', { where: options.file, next: 'name a file with one', exitCode: 2 })
  if ((options.sample === undefined) === (options.fromSource === undefined))
    throw new CliError('nothing to try the flow on', { next: 'give --sample FILE or --from-source COUNT', exitCode: 2 })
  const secrets = secretReader(options, namespaceOf(flow!))
  try {
    const { problems, warnings, previews } = await previewFlow(flow, {
      ...(options.sample === undefined ? { fromSource: countOf(options.fromSource!) } : { samples: await readSamples(options.sample) }),
      checkSink: options.checkSink === true,
      secret: secrets.read,
      allowLoopback: options.allowLoopback === true || process.env['PROCESSOR_ALLOW_LOOPBACK'] === 'true',
      signal: AbortSignal.timeout(lookMs),
    })
    for (const warning of warnings) tell(`warning: ${warning}`)
    for (const problem of problems) tell(problem)
    if (problems.length > 0) throw new CliError('the flow is invalid', { where: options.file, next: 'mend the lines above', exitCode: 6 })
    for (const preview of previews) print(JSON.stringify(preview))
  } finally {
    await secrets.close()
  }
}

async function readFlows(path: string): Promise<JsonObject[]> {
  const text = await readText(path)
  try {
    const flows = parseManifest(text).flatMap(({ object }) => (kinds.has(textOf(object['kind']) ?? '') ? [object] : []))
    if (flows.length > 0) return flows
  } catch (cause) {
    if (!(cause instanceof ManifestError)) throw cause
    throw new CliError('the manifest cannot be read', { where: path, next: 'mend the YAML', exitCode: 2, cause })
  }
  throw new CliError('there is no DataFlow and no DataFlowCron in it', { where: path, next: 'name a file with one', exitCode: 2 })
}

async function readText(path: string): Promise<string> {
  const text = await readFile(path === '-' ? '/dev/stdin' : path, 'utf8').catch((cause: unknown) => {
    throw new CliError('the file cannot be read', { where: path, next: 'name a file, or - for standard input', exitCode: 2, cause })
  })
  if (text.length > bytesMax) throw new CliError(`the file has more than ${bytesMax} bytes`, { where: path, next: 'cut it', exitCode: 2 })
  return text
}

async function readSamples(path: string): Promise<string[]> {
  const lines = (await readText(path)).split('\n').filter((line) => line.trim() !== '')
  if (lines.length > samplesMax)
    throw new CliError(`the sample has more than ${samplesMax} lines`, { where: path, next: 'cut it', exitCode: 2 })
  return lines
}

function countOf(text: string): number {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > samplesMax)
    throw new CliError(`--from-source: "${text}" is not a number from 1 to ${samplesMax}`, { exitCode: 2 })
  return count
}

const titleOf = (flow: JsonObject): string => {
  const namespace = metadataText(flow, 'namespace')
  return `${textOf(flow['kind']) ?? ''} ${namespace === undefined ? '' : `${namespace}/`}${metadataText(flow, 'name') ?? '(no name)'}`
}

const namespaceOf = (flow: JsonObject): string => metadataText(flow, 'namespace') ?? 'default'

const metadataText = (flow: JsonObject, key: string): string | undefined =>
  textOf((flow['metadata'] as Readonly<Record<string, unknown>> | undefined)?.[key])

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Secrets are read with the caller's own rights, and only when one is needed. */
function secretReader(options: PreviewFlags, ownNamespace: string) {
  let kube: Kube | undefined
  const open = async (): Promise<Kube> => {
    const path = options.kubeconfig ?? process.env['KUBECONFIG']
    kube ??= openKube(await loadKubeconfig({ ...(path === undefined ? {} : { path }), env: process.env }), { env: process.env })
    return kube
  }
  const read = async (namespace: string | undefined, name: string, key: string): Promise<string> => {
    const object = await (await open()).get({ apiVersion: 'v1', kind: 'Secret', namespace: namespace ?? ownNamespace, name })
    const value = (object['data'] as Record<string, string> | undefined)?.[key]
    if (value === undefined) throw new CliError(`secret ${namespace ?? ownNamespace}/${name} has no key ${key}`, { exitCode: 6 })
    return Buffer.from(value, 'base64').toString('utf8')
  }
  return { read, close: async () => kube?.close() }
}
