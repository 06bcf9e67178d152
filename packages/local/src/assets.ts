// Gets the programs of a practice cluster, in this order: the folder BROKKR_KUBE_ASSETS, PATH, the cache, a checked download, a build
// from the wrapper modules. What is downloaded or built goes into the cache, keyed by version, once for all processes.
import { dirname } from 'node:path'
import type { DownloadProgress } from './asset-download.ts'
import { cacheDir, fillOnce } from './cache.ts'
import { downloadGroup } from './download-group.ts'
import { type FoundGroup, findGroup, type Programs, programsIn } from './find-group.ts'
import { type BuildProgress, buildGroup } from './go-build.ts'
import { allGroups, cacheKey, groupParts, type KubeGroup, type KubePart, kubeVersion } from './kube-parts.ts'
import { type FailedWay, KubeUnavailable } from './kube-unavailable.ts'
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
  /** How simulated nodes and pods behave; there whenever kwok is. */
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
  /** `core`: etcd and kube-apiserver, enough for an API server. `full` (unless told): also controllers, scheduler and KWOK. */
  stage?: 'core' | 'full'
  /** Programs beyond the stage, such as kubectl. */
  parts?: readonly KubePart[]
  onProgress?: (progress: AssetProgress) => void
  signal?: AbortSignal
}

/** Throws KubeUnavailable when no way leads to a program that is asked for. */
export async function ensureKubeAssets(options: AssetOptions = {}): Promise<KubeAssets> {
  let assets: Programs & { version?: string } = {}
  for (const group of wantedGroups(options)) {
    const found = await ensureGroup(group, options)
    assets = { version: found.version, ...assets, ...found.programs }
  }
  return toAssets(assets)
}

/** The same without fetching anything: undefined when something that is asked for is neither named, on PATH nor in the cache. */
export async function findKubeAssets(options: AssetOptions = {}): Promise<KubeAssets | undefined> {
  let assets: Programs & { version?: string } = {}
  for (const group of wantedGroups(options)) {
    const found = await findGroup(group, options.cacheDir ?? cacheDir(options.env), options.env ?? process.env)
    if (!('programs' in found)) return undefined
    assets = { version: found.version, ...assets, ...found.programs }
  }
  return toAssets(assets)
}

export function wantedGroups({ stage = 'full', parts = [] }: Pick<AssetOptions, 'stage' | 'parts'>): KubeGroup[] {
  const staged: readonly KubeGroup[] = stage === 'core' ? ['core'] : ['core', 'controllers', 'kwok']
  return allGroups.filter(
    (group) => staged.includes(group) || parts.some((part) => (groupParts[group] as readonly KubePart[]).includes(part)),
  )
}

async function ensureGroup(group: KubeGroup, options: AssetOptions): Promise<Pick<FoundGroup, 'programs' | 'version'>> {
  const env = options.env ?? process.env
  const cache = options.cacheDir ?? cacheDir(env)
  const found = await findGroup(group, cache, env)
  if ('programs' in found) {
    options.onProgress?.({ part: group, step: 'found', detail: `${groupParts[group].join(', ')} (${found.way})` })
    return found
  }
  const onWait = () => options.onProgress?.({ part: group, step: 'build', detail: 'another process is getting it' })
  const fill = (dir: string, signal: AbortSignal) => fillGroup(group, { dir, cache, env, signal }, options, found.failedWays)
  const entry = await fillOnce(cache, cacheKey(group), fill, { onWait, ...(options.signal ? { signal: options.signal } : {}) })
  options.onProgress?.({ part: group, step: 'done', detail: entry })
  return { programs: programsIn(group, entry), version: kubeVersion }
}

type Fill = { dir: string; cache: string; env: NodeJS.ProcessEnv; signal: AbortSignal }

async function fillGroup(group: KubeGroup, fill: Fill, options: AssetOptions, earlier: readonly FailedWay[]): Promise<void> {
  const tell = (step: 'download' | 'build') => (progress: BuildProgress) => options.onProgress?.({ part: group, step, ...progress })
  const failed: FailedWay[] = [...earlier]
  try {
    return await downloadGroup(group, { ...fill, onProgress: (progress) => tell('download')(describe(progress)) })
  } catch (error) {
    failed.push(failure('download', error, fill.signal))
    tell('download')({ detail: `not possible: ${(error as Error).message}` })
  }
  try {
    await buildGroup(group, { ...fill, onProgress: tell('build') })
  } catch (error) {
    failed.push(failure('build', error, fill.signal))
    throw new KubeUnavailable(groupParts[group], failed, { cause: error })
  }
}

/** A wish to stop is not a failed way. */
function failure(way: FailedWay['way'], error: unknown, signal: AbortSignal): FailedWay {
  signal.throwIfAborted()
  return { way, why: (error as Error).message }
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
