// Finds a Java that is new enough: JAVA_HOME, then PATH, then the folders where systems and version managers put theirs. Java is not
// fetched: what installs it is the machine's choice, and the message says what was looked at.
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { definedOnly } from './go-environment.ts'
import { findCommand } from './spawn-owned.ts'

export type Java = { command: string; home: string; major: number }
/** `major` is undefined when the folder does not say what it is. */
export type JavaCandidate = { command: string; home: string; major: number | undefined }

/** Message holds what was looked at and how to mend it. */
export class JavaUnavailable extends Error {
  override readonly name = 'JavaUnavailable'
}

export function findJava(options: { majorMin: number; env: NodeJS.ProcessEnv }): Java {
  const candidates = javaCandidates(options.env)
  const chosen = chooseJava(candidates, options.majorMin)
  if (chosen !== undefined) return chosen
  const seen = candidates.map(({ command, major }) => `${command} (${major === undefined ? 'version not said' : `Java ${major}`})`)
  throw new JavaUnavailable(
    `Java ${options.majorMin} or newer is needed and was not found in JAVA_HOME, on PATH or in ${folders(options.env).join(', ')}; ` +
      `seen: ${seen.length === 0 ? 'none' : seen.join(', ')}. Install a JDK (22 or newer serves every part of the tests), or set JAVA_HOME to one.`,
  )
}

/** The first that is new enough: the order says what the user prefers. */
export function chooseJava(candidates: readonly JavaCandidate[], majorMin: number): Java | undefined {
  const found = candidates.find(({ major }) => major !== undefined && major >= majorMin)
  return found?.major === undefined ? undefined : { ...found, major: found.major }
}

/** From the text of the file `release` that every JDK has: `JAVA_VERSION="25.0.1"`; 8 and older say 1.8. */
export function majorOf(release: string): number | undefined {
  const found = /^JAVA_VERSION="(?:1\.)?(\d+)/m.exec(release)?.[1]
  return found === undefined ? undefined : Number(found)
}

function javaCandidates(env: NodeJS.ProcessEnv): JavaCandidate[] {
  const named = env['JAVA_HOME'] ?? ''
  const onPath = findCommand('java', env['PATH'] ?? '')
  const homes = [
    ...(named === '' ? [] : [named]),
    // A link such as /usr/bin/java leads to <home>/bin/java.
    ...(onPath === undefined ? [] : [dirname(dirname(realpathSync(onPath)))]),
    ...folders(env).flatMap(homesIn),
  ]
  return [...new Set(homes)].flatMap((home) => {
    const command = join(home, 'bin', 'java')
    return existsSync(command) ? [{ command, home, major: readMajor(home) }] : []
  })
}

function folders(env: NodeJS.ProcessEnv): string[] {
  const home = definedOnly(env)['HOME'] ?? ''
  const own = home === '' ? [] : [join(home, '.sdkman', 'candidates', 'java'), join(home, '.jdks')]
  return ['/usr/lib/jvm', '/usr/java', '/opt/java', '/Library/Java/JavaVirtualMachines', ...own]
}

/** Newest name first, so that of several the later one is taken. */
function homesIn(folder: string): string[] {
  try {
    const names = readdirSync(folder).toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    return names.flatMap((name) => [join(folder, name), join(folder, name, 'Contents', 'Home')])
  } catch {
    return []
  }
}

function readMajor(home: string): number | undefined {
  try {
    return majorOf(readFileSync(join(home, 'release'), 'utf8'))
  } catch {
    return undefined
  }
}
