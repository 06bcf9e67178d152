// Downloads the programs of one group into a folder, each compared with its published checksum before it becomes executable.
import { chmod, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type DownloadProgress, downloadVerified } from './download.ts'
import { groupParts, type KubeGroup, type KubePart } from './kube-parts.ts'
import { type AssetSource, assetSource, currentPlatform, mirrorAddress } from './sources.ts'
import { extractEntry } from './tar-entry.ts'

export type DownloadGroupOptions = {
  dir: string
  env: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (progress: DownloadProgress) => void
}

export async function downloadGroup(group: KubeGroup, options: DownloadGroupOptions): Promise<void> {
  const mirror = mirrorAddress(options.env)
  const sources = groupParts[group].map((part) => ({ part, source: assetSource(part, currentPlatform(), mirror) }))
  for (const { source } of sources) if ('none' in source) throw new Error(source.none)
  for (const { part, source } of sources) await downloadPart(part, source as AssetSource, options)
}

async function downloadPart(part: KubePart, source: AssetSource, options: DownloadGroupOptions): Promise<void> {
  const { url, checksumUrl, entry } = source
  const { signal, onProgress } = options
  const program = join(options.dir, part)
  const file = entry === undefined ? program : `${program}.tar.gz`
  await downloadVerified({ url, checksumUrl, file, ...(signal ? { signal } : {}), ...(onProgress ? { onProgress } : {}) })
  try {
    if (entry !== undefined) await extractEntry(file, entry, program)
  } finally {
    if (entry !== undefined) await rm(file)
  }
  await chmod(program, 0o755)
}
