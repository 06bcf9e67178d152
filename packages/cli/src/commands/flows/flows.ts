// brokkr flows …: validates a data flow and previews it on samples or on its source before it is applied.
import { readFile } from 'node:fs/promises'
import { type JsonObject, ManifestError, parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { previewFlow, validateFlow } from '@brokkr/dataflow/commands.ts'
import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { readCliEnvironment } from '../../config.ts'
import { CliError, print, printError } from '../../output.ts'

const kinds = new Set(['DataFlow', 'DataFlowCron'])
const bytesMax = 8 << 20
const samplesMax = 1_000
/** Time limit for reading samples from a source. */
const sampleMs = 60_000

export async function validateFlows(options: { readonly file: string }): Promise<void> {
  const flows = await readFlows(options.file)
  let invalidCount = 0
  for (const flow of flows) {
    const { problems, warnings } = validateFlow(flow)
    for (const warning of warnings) printError(`${toTitle(flow)}: warning: ${warning}`)
    for (const problem of problems) print(`${toTitle(flow)}: ${problem}`)
    if (problems.length === 0) print(`${toTitle(flow)}: valid`)
    else invalidCount += 1
  }
  if (invalidCount > 0)
    throw new CliError(`${invalidCount} of ${flows.length} flows are invalid`, {
      where: options.file,
      next: 'correct the problems above',
      exitCode: 6,
    })
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
    throw new CliError('the file contains more than one flow', { where: options.file, next: 'name a file with one flow', exitCode: 2 })
  if ((options.sample === undefined) === (options.fromSource === undefined))
    throw new CliError('the preview has no messages', { next: 'set --sample FILE or --from-source COUNT', exitCode: 2 })
  const secrets = createSecretReader(options, readNamespace(flow!))
  try {
    const { problems, warnings, previews } = await previewFlow(flow, {
      ...(options.sample === undefined ? { fromSource: parseCount(options.fromSource!) } : { samples: await readSamples(options.sample) }),
      checkSink: options.checkSink === true,
      secret: secrets.read,
      allowLoopback: options.allowLoopback === true || readCliEnvironment(process.env).PROCESSOR_ALLOW_LOOPBACK === true,
      signal: AbortSignal.timeout(sampleMs),
    })
    for (const warning of warnings) printError(`warning: ${warning}`)
    for (const problem of problems) printError(problem)
    if (problems.length > 0)
      throw new CliError('the flow is invalid', { where: options.file, next: 'correct the problems above', exitCode: 6 })
    for (const preview of previews) print(JSON.stringify(preview))
  } finally {
    await secrets.close()
  }
}

async function readFlows(path: string): Promise<JsonObject[]> {
  const text = await readText(path)
  try {
    const flows = parseManifest(text).flatMap(({ object }) => (kinds.has(formatValue(object['kind']) ?? '') ? [object] : []))
    if (flows.length > 0) return flows
  } catch (cause) {
    if (!(cause instanceof ManifestError)) throw cause
    throw new CliError('the manifest cannot be read', { where: path, next: 'correct the YAML', exitCode: 2, cause })
  }
  throw new CliError('the file contains no DataFlow or DataFlowCron', { where: path, next: 'name a file with a flow', exitCode: 2 })
}

async function readText(path: string): Promise<string> {
  const text = await readFile(path === '-' ? '/dev/stdin' : path, 'utf8').catch((cause: unknown) => {
    throw new CliError('the file cannot be read', { where: path, next: 'name a file, or - for standard input', exitCode: 2, cause })
  })
  if (text.length > bytesMax)
    throw new CliError(`the file has more than ${bytesMax} bytes`, { where: path, next: 'shorten it', exitCode: 2 })
  return text
}

async function readSamples(path: string): Promise<string[]> {
  const lines = (await readText(path)).split('\n').filter((line) => line.trim() !== '')
  if (lines.length > samplesMax)
    throw new CliError(`the sample has more than ${samplesMax} lines`, { where: path, next: 'shorten it', exitCode: 2 })
  return lines
}

function parseCount(text: string): number {
  const count = Number(text)
  if (!Number.isInteger(count) || count < 1 || count > samplesMax)
    throw new CliError(`--from-source: "${text}" is not a number from 1 to ${samplesMax}`, { exitCode: 2 })
  return count
}

const toTitle = (flow: JsonObject): string => {
  const namespace = metadataText(flow, 'namespace')
  return `${formatValue(flow['kind']) ?? ''} ${namespace === undefined ? '' : `${namespace}/`}${metadataText(flow, 'name') ?? '(no name)'}`
}

const readNamespace = (flow: JsonObject): string => metadataText(flow, 'namespace') ?? 'default'

const metadataText = (flow: JsonObject, key: string): string | undefined =>
  formatValue((flow['metadata'] as Readonly<Record<string, unknown>> | undefined)?.[key])

const formatValue = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Secrets are read with the caller's own rights, and only when one is needed. */
function createSecretReader(options: PreviewFlags, ownNamespace: string) {
  let kube: Kube | undefined
  const openKubeOnce = async (): Promise<Kube> => {
    const path = options.kubeconfig ?? readCliEnvironment(process.env).KUBECONFIG ?? undefined
    kube ??= openKube(await loadKubeconfig({ ...(path === undefined ? {} : { path }), env: process.env }), { env: process.env })
    return kube
  }
  const readSecret = async (namespace: string | undefined, name: string, key: string): Promise<string> => {
    const object = await (await openKubeOnce()).get({ apiVersion: 'v1', kind: 'Secret', namespace: namespace ?? ownNamespace, name })
    const value = (object['data'] as Record<string, string> | undefined)?.[key]
    if (value === undefined) throw new CliError(`secret ${namespace ?? ownNamespace}/${name} has no key ${key}`, { exitCode: 6 })
    return Buffer.from(value, 'base64').toString('utf8')
  }
  return { read: readSecret, close: async () => kube?.close() }
}
