// Finds installed programs of one group: in the folder BROKKR_KUBE_ASSETS, on PATH, in the cache.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readProgramOutput } from '../supervisor/program-output.ts'
import { findCommand } from '../supervisor/spawn-owned.ts'
import { entryPath } from './cache.ts'
import {
  cacheKey,
  groupParts,
  isVersionAccepted,
  type KubeGroup,
  type KubePart,
  parseVersion,
  pinnedVersion,
  versionArguments,
} from './kube-parts.ts'
import { type FailedSource, KubeUnavailable } from './kube-unavailable.ts'

export type Programs = Partial<Record<KubePart, string>>
export type FoundGroup = { source: 'BROKKR_KUBE_ASSETS' | 'PATH' | 'cache'; programs: Programs; version: string }

/** If BROKKR_KUBE_ASSETS is set, only that folder is searched, and a missing file is an error. */
export async function findGroup(
  group: KubeGroup,
  cache: string,
  env: NodeJS.ProcessEnv,
): Promise<FoundGroup | { failedSources: FailedSource[] }> {
  const configuredDir = env['BROKKR_KUBE_ASSETS']
  if (configuredDir !== undefined && configuredDir !== '') return findInFolder(group, configuredDir)
  const onPath = await findOnSearchPath(group, env['PATH'] ?? '')
  if ('programs' in onPath) return onPath
  const entry = entryPath(cache, cacheKey(group))
  if (existsSync(entry)) return { source: 'cache', programs: findPrograms(group, entry), version: pinnedVersion(lastPart(group)) }
  return {
    failedSources: [{ source: 'BROKKR_KUBE_ASSETS', why: 'not set' }, onPath, { source: 'cache', why: `${entry} does not exist` }],
  }
}

export function findPrograms(group: KubeGroup, dir: string): Programs {
  return Object.fromEntries(groupParts[group].map((part) => [part, join(dir, part)]))
}

async function findInFolder(group: KubeGroup, dir: string): Promise<FoundGroup> {
  const parts: readonly KubePart[] = groupParts[group]
  const missingParts = parts.filter((part) => findCommand(join(dir, part), '') === undefined)
  if (missingParts.length > 0) {
    throw new KubeUnavailable(parts, [{ source: 'BROKKR_KUBE_ASSETS', why: `${dir} has no executable ${missingParts.join(', ')}` }])
  }
  const versionResult = await readVersion(lastPart(group), join(dir, lastPart(group)))
  if ('why' in versionResult) throw new KubeUnavailable(parts, [{ source: 'BROKKR_KUBE_ASSETS', why: versionResult.why }])
  return { source: 'BROKKR_KUBE_ASSETS', programs: findPrograms(group, dir), version: versionResult.version }
}

/** Accepts only a complete group, so that all programs of a control plane come from one source. */
async function findOnSearchPath(group: KubeGroup, path: string): Promise<FoundGroup | FailedSource> {
  const programs: Programs = {}
  let version = ''
  for (const part of groupParts[group]) {
    const program = findCommand(part, path)
    if (program === undefined) return { source: 'PATH', why: `${part} not found` }
    const versionResult = await readVersion(part, program)
    if ('why' in versionResult) return { source: 'PATH', why: versionResult.why }
    if (!isVersionAccepted(part, versionResult.version))
      return { source: 'PATH', why: `${program} is ${versionResult.version}, ${pinnedVersion(part)} is required` }
    programs[part] = program
    version = versionResult.version
  }
  return { source: 'PATH', programs, version }
}

async function readVersion(part: KubePart, program: string): Promise<{ version: string } | { why: string }> {
  try {
    const output = await readProgramOutput(program, versionArguments(part))
    const version = parseVersion(output)
    return version === undefined ? { why: `${program} printed no version: '${output.trim().slice(0, 200)}'` } : { version }
  } catch (error) {
    return { why: `${program} cannot be run: ${(error as Error).message}` }
  }
}

/** The program that determines the version of the group: kube-apiserver for the core. */
function lastPart(group: KubeGroup): KubePart {
  const parts: readonly KubePart[] = groupParts[group]
  return parts.at(-1) as KubePart
}
