// The lockfile is the truth: exact versions, integrity on every entry, no registry address, no install script.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
interface Entry {
  readonly version?: string
  readonly resolved?: string
  readonly integrity?: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
  readonly inBundle?: boolean
}
const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
  lockfileVersion: number
  packages: Record<string, Entry>
}

/** Everything that is wrong with a lockfile, as sentences; empty when nothing is. */
function problemsOf(packages: Record<string, Entry>): string[] {
  return Object.entries(packages).flatMap(([path, entry]) => {
    const isOurs = !path.includes('node_modules/')
    if (isOurs) return []
    if (entry.link === true) return entry.resolved?.startsWith('packages/') === true ? [] : [`${path} links outside the workspace`]
    return [
      ...(entry.resolved === undefined ? [] : [`${path} holds an address`]),
      ...(entry.integrity === undefined && entry.inBundle !== true ? [`${path} has no integrity`] : []),
      ...(entry.hasInstallScript === true ? [`${path} has an install script`] : []),
    ]
  })
}

test('[X36] the lockfile has integrity for every package, no address and no install script', () => {
  expect(lock.lockfileVersion).toBe(3)
  expect(problemsOf(lock.packages)).toEqual(allowedInstallScripts.map((path) => `${path} has an install script`))
  const good = { version: '1.0.0', integrity: 'sha512-x' }
  expect(problemsOf({ 'node_modules/a': good })).toEqual([])
  expect(problemsOf({ 'node_modules/a': { ...good, resolved: 'https://example.invalid/a.tgz' } })).toEqual([
    'node_modules/a holds an address',
  ])
  expect(problemsOf({ 'node_modules/a': { version: '1.0.0' } })).toEqual(['node_modules/a has no integrity'])
  expect(problemsOf({ 'node_modules/a': { ...good, hasInstallScript: true } })).toEqual(['node_modules/a has an install script'])
})

/** Packages that bring an install script which never runs here (`ignore-scripts`): each with the reason we can do without. */
const allowedInstallScripts: readonly string[] = readFileSync(join(root, 'scripts', 'install-scripts.txt'), 'utf8')
  .split('\n')
  .flatMap((line) => (line === '' || line.startsWith('#') ? [] : [line.split(' ')[0]!]))

test('direct dependencies have exact versions, workspace ones a star', () => {
  const manifests = ['.', ...Object.keys(lock.packages).filter((path) => /^packages\/[^/]+$/.test(path))]
  const wrong = manifests.flatMap((dir) => {
    const manifest = JSON.parse(readFileSync(join(root, dir, 'package.json'), 'utf8')) as Record<string, Record<string, string> | undefined>
    return ['dependencies', 'devDependencies', 'optionalDependencies'].flatMap((kind) =>
      Object.entries(manifest[kind] ?? {}).flatMap(([name, version]) => (isExact(name, version) ? [] : [`${dir}: ${name}@${version}`])),
    )
  })
  expect(wrong).toEqual([])
})

const isExact = (name: string, version: string): boolean =>
  name.startsWith('@brokkr/') ? version === '*' : /^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)

test('npm runs no scripts, fetches nothing by address, and omits addresses from the lockfile', () => {
  const settings = readFileSync(join(root, '.npmrc'), 'utf8').split('\n')
  for (const line of [
    'ignore-scripts=true',
    'omit-lockfile-registry-resolved=true',
    'save-exact=true',
    'allow-git=none',
    'allow-remote=none',
  ])
    expect(settings).toContain(line)
})
