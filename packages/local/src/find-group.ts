// Looks for the programs of one group where they may lie already: the folder named by BROKKR_KUBE_ASSETS, PATH, the cache.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { askProgram } from './ask-program.ts'
import { entryPath } from './cache.ts'
import {
  cacheKey,
  groupParts,
  type KubeGroup,
  type KubePart,
  parseVersion,
  versionArguments,
  versionFits,
  versionOf,
} from './kube-parts.ts'
import { type FailedWay, KubeUnavailable } from './kube-unavailable.ts'
import { findCommand } from './spawn-owned.ts'

export type Programs = Partial<Record<KubePart, string>>
export type FoundGroup = { way: 'BROKKR_KUBE_ASSETS' | 'PATH' | 'cache'; programs: Programs; version: string }

/** A folder named on purpose is the only place looked at: a missing file there is an error, not a reason to look elsewhere. */
export async function findGroup(
  group: KubeGroup,
  cache: string,
  env: NodeJS.ProcessEnv,
): Promise<FoundGroup | { failedWays: FailedWay[] }> {
  const named = env['BROKKR_KUBE_ASSETS']
  if (named !== undefined && named !== '') return inNamedFolder(group, named)
  const onPath = await onSearchPath(group, env['PATH'] ?? '')
  if ('programs' in onPath) return onPath
  const entry = entryPath(cache, cacheKey(group))
  if (existsSync(entry)) return { way: 'cache', programs: programsIn(group, entry), version: versionOf(lastPart(group)) }
  return {
    failedWays: [{ way: 'BROKKR_KUBE_ASSETS', why: 'not set' }, onPath, { way: 'cache', why: `${entry} is not there` }],
  }
}

export function programsIn(group: KubeGroup, dir: string): Programs {
  return Object.fromEntries(groupParts[group].map((part) => [part, join(dir, part)]))
}

async function inNamedFolder(group: KubeGroup, dir: string): Promise<FoundGroup> {
  const parts: readonly KubePart[] = groupParts[group]
  const missing = parts.filter((part) => findCommand(join(dir, part), '') === undefined)
  if (missing.length > 0) {
    throw new KubeUnavailable(parts, [{ way: 'BROKKR_KUBE_ASSETS', why: `${dir} has no executable ${missing.join(', ')}` }])
  }
  const asked = await askVersion(lastPart(group), join(dir, lastPart(group)))
  if ('why' in asked) throw new KubeUnavailable(parts, [{ way: 'BROKKR_KUBE_ASSETS', why: asked.why }])
  return { way: 'BROKKR_KUBE_ASSETS', programs: programsIn(group, dir), version: asked.version }
}

/** All of the group or none: programs of one plane should come from one place. */
async function onSearchPath(group: KubeGroup, path: string): Promise<FoundGroup | FailedWay> {
  const programs: Programs = {}
  let version = ''
  for (const part of groupParts[group]) {
    const program = findCommand(part, path)
    if (program === undefined) return { way: 'PATH', why: `${part} is not there` }
    const asked = await askVersion(part, program)
    if ('why' in asked) return { way: 'PATH', why: asked.why }
    if (!versionFits(part, asked.version)) return { way: 'PATH', why: `${program} is ${asked.version}, ${versionOf(part)} is needed` }
    programs[part] = program
    version = asked.version
  }
  return { way: 'PATH', programs, version }
}

async function askVersion(part: KubePart, program: string): Promise<{ version: string } | { why: string }> {
  try {
    const said = await askProgram(program, versionArguments(part))
    const version = parseVersion(said)
    return version === undefined ? { why: `${program} does not tell its version, it says '${said.trim().slice(0, 200)}'` } : { version }
  } catch (error) {
    return { why: `${program} cannot be run: ${(error as Error).message}` }
  }
}

/** The one whose version speaks for the group: kube-apiserver for the core. */
function lastPart(group: KubeGroup): KubePart {
  const parts: readonly KubePart[] = groupParts[group]
  return parts.at(-1) as KubePart
}
