// Finds a Java that is new enough: JAVA_HOME, then PATH, then the usual folders of systems and version managers. Java is not
// downloaded; the error lists the searched places.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { findCommand } from '../supervisor/spawn-owned.ts'
import { dropUndefined } from './go-environment.ts'

export type Java = { command: string; home: string; major: number }
/** `major` is undefined if the version cannot be determined. */
export type JavaCandidate = { command: string; home: string; major: number | undefined }

/** The message lists the searched places and how to install Java. */
class JavaUnavailable extends Error {
  override readonly name = 'JavaUnavailable'
}

export function findJava(options: { majorMin: number; env: NodeJS.ProcessEnv }): Java {
  const candidates = listCandidates(options.env)
  const chosen = chooseJava(candidates, options.majorMin)
  if (chosen !== undefined) return chosen
  const candidateTexts = candidates.map(({ command, major }) => `${command} (${major === undefined ? 'unknown version' : `Java ${major}`})`)
  throw new JavaUnavailable(
    `Java ${options.majorMin} or newer is required and was not found in JAVA_HOME, on PATH or in ${listSearchFolders(options.env).join(', ')}; ` +
      `found: ${candidateTexts.length === 0 ? 'none' : candidateTexts.join(', ')}. Install a JDK (22 or newer is enough for all tests), or set JAVA_HOME to one.`,
  )
}

/** Returns the first candidate that is new enough; candidates are in order of preference. */
export function chooseJava(candidates: readonly JavaCandidate[], majorMin: number): Java | undefined {
  const candidate = candidates.find(({ major }) => major !== undefined && major >= majorMin)
  return candidate?.major === undefined ? undefined : { ...candidate, major: candidate.major }
}

/** Parses the file `release` of a JDK, such as `JAVA_VERSION="25.0.1"`; version 8 and older have the form 1.8. */
export function parseMajor(release: string): number | undefined {
  const digits = /^JAVA_VERSION="(?:1\.)?(\d+)/m.exec(release)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function listCandidates(env: NodeJS.ProcessEnv): JavaCandidate[] {
  const javaHome = env['JAVA_HOME'] ?? ''
  const onPath = findCommand('java', env['PATH'] ?? '')
  const homes = [
    ...(javaHome === '' ? [] : [javaHome]),
    // A link such as /usr/bin/java points to <home>/bin/java.
    ...(onPath === undefined ? [] : [dirname(dirname(realpathSync(onPath)))]),
    ...listSearchFolders(env).flatMap(listHomes),
  ]
  return [...new Set(homes)].flatMap((home) => {
    const command = join(home, 'bin', 'java')
    return existsSync(command) ? [{ command, home, major: readMajor(home) }] : []
  })
}

function listSearchFolders(env: NodeJS.ProcessEnv): string[] {
  const home = dropUndefined(env)['HOME'] ?? ''
  const own = home === '' ? [] : [join(home, '.sdkman', 'candidates', 'java'), join(home, '.jdks')]
  return ['/usr/lib/jvm', '/usr/java', '/opt/java', '/Library/Java/JavaVirtualMachines', ...own]
}

/** Sorts by descending version. */
function listHomes(folder: string): string[] {
  try {
    const names = readdirSync(folder).toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    return names.flatMap((name) => [join(folder, name), join(folder, name, 'Contents', 'Home')])
  } catch {
    return []
  }
}

function readMajor(home: string): number | undefined {
  try {
    return parseMajor(readFileSync(join(home, 'release'), 'utf8'))
  } catch {
    return undefined
  }
}
