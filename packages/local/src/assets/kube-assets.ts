// Obtains the programs of a local cluster, in this order: the folder BROKKR_KUBE_ASSETS, PATH, the cache, a verified download, a
// build from the wrapper modules. Downloads and builds are cached by version, once for all processes.
import { dirname } from 'node:path'
import { cacheDir, ensureEntry } from './cache.ts'
import type { DownloadProgress } from './download.ts'
import { downloadGroup } from './download-group.ts'
import { type FoundGroup, findGroup, findPrograms, type Programs } from './find-group.ts'
import { type BuildProgress, buildGroup } from './go-build.ts'
import { allGroups, cacheKey, groupParts, type KubeGroup, type KubePart, kubeVersion } from './kube-parts.ts'
import { type FailedSource, KubeUnavailable } from './kube-unavailable.ts'
import { packageFile } from './package-file.ts'

export type KubeAssets = {
  /** The folder of kube-apiserver. */
  dir: string
  /** Of kube-apiserver. */
  version: string
  etcd: string
  kubeApiserver: string
  controllerManager?: string
  scheduler?: string
  kwok?: string
  /** Behavior of simulated nodes and pods; set if `kwok` is set. */
  kwokStages?: string
  kubectl?: string
}

export type AssetProgress = {
  part: KubeGroup
  step: 'found' | 'download' | 'build' | 'done'
  detail: string
  done?: number
  total?: number
}

export type AssetOptions = {
  cacheDir?: string
  env?: NodeJS.ProcessEnv
  /** `core`: etcd and kube-apiserver, enough for an API server. `full` (default): also controllers, scheduler and KWOK. */
  stage?: 'core' | 'full'
  /** Programs beyond the stage, such as kubectl. */
  parts?: readonly KubePart[]
  onProgress?: (progress: AssetProgress) => void
  signal?: AbortSignal
}

/** Throws KubeUnavailable if a requested program cannot be obtained from any source. */
export async function ensureKubeAssets(options: AssetOptions = {}): Promise<KubeAssets> {
  let assets: Programs & { version?: string } = {}
  for (const group of selectGroups(options)) {
    const groupAssets = await ensureGroup(group, options)
    assets = { version: groupAssets.version, ...assets, ...groupAssets.programs }
  }
  return toAssets(assets)
}

/** Does not download or build: undefined if a requested program is neither in BROKKR_KUBE_ASSETS, on PATH nor in the cache. */
export async function findKubeAssets(options: AssetOptions = {}): Promise<KubeAssets | undefined> {
  let assets: Programs & { version?: string } = {}
  for (const group of selectGroups(options)) {
    const searchResult = await findGroup(group, options.cacheDir ?? cacheDir(options.env), options.env ?? process.env)
    if (!('programs' in searchResult)) return undefined
    assets = { version: searchResult.version, ...assets, ...searchResult.programs }
  }
  return toAssets(assets)
}

export function selectGroups({ stage = 'full', parts = [] }: Pick<AssetOptions, 'stage' | 'parts'>): KubeGroup[] {
  const staged: readonly KubeGroup[] = stage === 'core' ? ['core'] : ['core', 'controllers', 'kwok']
  return allGroups.filter(
    (group) => staged.includes(group) || parts.some((part) => (groupParts[group] as readonly KubePart[]).includes(part)),
  )
}

async function ensureGroup(group: KubeGroup, options: AssetOptions): Promise<Pick<FoundGroup, 'programs' | 'version'>> {
  const env = options.env ?? process.env
  const cache = options.cacheDir ?? cacheDir(env)
  const searchResult = await findGroup(group, cache, env)
  if ('programs' in searchResult) {
    options.onProgress?.({ part: group, step: 'found', detail: `${groupParts[group].join(', ')} (${searchResult.source})` })
    return searchResult
  }
  const onWait = () => options.onProgress?.({ part: group, step: 'build', detail: 'another process is getting it' })
  const fill = (dir: string, signal: AbortSignal) => fillGroup(group, { dir, cache, env, signal }, options, searchResult.failedSources)
  const entry = await ensureEntry(cache, cacheKey(group), fill, { onWait, ...(options.signal ? { signal: options.signal } : {}) })
  options.onProgress?.({ part: group, step: 'done', detail: entry })
  return { programs: findPrograms(group, entry), version: kubeVersion }
}

type Fill = { dir: string; cache: string; env: NodeJS.ProcessEnv; signal: AbortSignal }

async function fillGroup(group: KubeGroup, fill: Fill, options: AssetOptions, earlier: readonly FailedSource[]): Promise<void> {
  const report = (step: 'download' | 'build') => (progress: BuildProgress) => options.onProgress?.({ part: group, step, ...progress })
  const failedSources: FailedSource[] = [...earlier]
  try {
    return await downloadGroup(group, { ...fill, onProgress: (progress) => report('download')(describe(progress)) })
  } catch (error) {
    failedSources.push(toFailedSource('download', error, fill.signal))
    report('download')({ detail: `not possible: ${(error as Error).message}` })
  }
  try {
    await buildGroup(group, { ...fill, onProgress: report('build') })
  } catch (error) {
    failedSources.push(toFailedSource('build', error, fill.signal))
    throw new KubeUnavailable(groupParts[group], failedSources, { cause: error })
  }
}

/** Throws if the caller aborted; that is not a failure of the source. */
function toFailedSource(source: FailedSource['source'], error: unknown, signal: AbortSignal): FailedSource {
  signal.throwIfAborted()
  return { source, why: (error as Error).message }
}

function describe({ name, doneBytes, totalBytes, bytesPerSecond }: DownloadProgress): BuildProgress {
  const mib = (bytes: number) => (bytes / 1024 / 1024).toFixed(1)
  const of = totalBytes === undefined ? '' : ` of ${mib(totalBytes)}`
  const detail = `${name} ${mib(doneBytes)}${of} MiB, ${mib(bytesPerSecond)} MiB/s`
  return { detail, done: doneBytes, ...(totalBytes === undefined ? {} : { total: totalBytes }) }
}

function toAssets(programs: Programs & { version?: string }): KubeAssets {
  const kubeApiserver = programs['kube-apiserver'] as string
  const optional = {
    controllerManager: programs['kube-controller-manager'],
    scheduler: programs['kube-scheduler'],
    kwok: programs.kwok,
    kwokStages: programs.kwok === undefined ? undefined : packageFile('kwok/stages.yaml'),
    kubectl: programs.kubectl,
  }
  const present = Object.fromEntries(Object.entries(optional).filter(([, path]) => path !== undefined))
  return { dir: dirname(kubeApiserver), version: programs.version ?? kubeVersion, etcd: programs.etcd as string, kubeApiserver, ...present }
}
