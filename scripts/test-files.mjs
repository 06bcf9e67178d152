// Lists the test files of a run and the servers that each needs, read from its imports of the testing package. Plain JavaScript,
// because the runner reads it before anything is built.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

/** Module of packages/testing → the parts it starts (names of BROKKR_TEST_WITHOUT). */
const partOfModule = {
  postgres: 'postgres',
  kube: 'kubernetes',
  nodes: 'kubernetes',
  world: 'kubernetes',
  agent: 'kubernetes',
  'audited-cluster': 'kubernetes',
  broker: 'postgres',
  'feed-world': 'postgres',
  kubectl: 'kubectl',
  kafka: 'kafka',
  'schema-registry': 'registry',
  schemathesis: 'schemathesis',
  pyiceberg: 'pyiceberg',
  clickhouse: 'clickhouse',
  trino: 'trino',
  // Its tables lie in the S3 service.
  nessie: ['nessie', 's3'],
  s3: 's3',
  browser: 'browser',
  'console-page': 'browser',
  'git-server': 'git',
  gitea: 'gitea',
  helm: 'helm',
}
export const parts = [...new Set(Object.values(partOfModule).flat())]
const roots = ['packages', 'scripts', 'journeys']
const skipped = new Set(['node_modules', 'dist', '.brokkr'])

/** @returns {{ file: string, parts: string[], peers: boolean, sized: boolean, long: boolean }[]} every test file of the tree, sorted */
export function listTests(root) {
  const paths = roots.flatMap((dir) => [...walk(join(root, dir))])
  return paths.map((path) => describeTest(root, path)).toSorted((a, b) => (a.file < b.file ? -1 : 1))
}

/** Splits a run's files into those that need no server and those that do; `left` lists the files that `without` excludes. */
export function testFiles(root, { tier, without }) {
  const absent = new Set(without.split(',').filter(Boolean))
  const inTier = listTests(root).filter((test) => belongs(test, tier))
  const left = inTier.filter((test) => test.parts.some((part) => absent.has(part)))
  const run = inTier.filter((test) => !left.includes(test))
  return {
    pure: run.filter((test) => test.parts.length === 0).map((test) => test.file),
    servers: run.filter((test) => test.parts.length > 0).map((test) => test.file),
    left,
  }
}

function belongs(test, tier) {
  if (tier === 'peers') return test.peers
  if (test.peers) return false
  return tier !== 'quick' || isQuick(test)
}

/** PostgreSQL at most, and neither a journey nor one of those that are long, by their size or by their own word. */
export const isQuick = (test) => {
  if (test.long) return false
  return test.parts.length === 0 || (test.parts.every((part) => part === 'postgres') && !test.sized && !test.file.startsWith('journeys/'))
}

function describeTest(root, path) {
  const text = readFileSync(path, 'utf8')
  // What a test's own helpers import counts as its own.
  const helpers = [...text.matchAll(/from '(\.[^']*\/test-parts\/[^']+\.ts)'/g)]
    .map((m) => join(dirname(path), m[1]))
    .filter((file) => existsSync(file))
  const texts = [text, ...helpers.map((file) => readFileSync(file, 'utf8'))]
  const inTesting = path.includes(join('packages', 'testing', 'src'))
  const pattern = inTesting
    ? /(?:from|import) '(?:@brokkr\/testing|\.\.?)\/(?:[a-z.-]+\/)*([a-z-]+)\.ts'/g
    : /(?:from|import) '@brokkr\/testing\/(?:[a-z-]+\/)*([a-z-]+)\.ts'/g
  const modules = texts.flatMap((one) => [...one.matchAll(pattern)].map((m) => m[1]))
  // A test that imports no such module (it lies below the testing package, or starts the product itself) says it in its first line.
  const marked = /^\/\/ needs: ([a-z, ]+)/.exec(text)?.[1]?.split(/, */) ?? []
  const neededParts = new Set([...modules.flatMap((name) => partOfModule[name] ?? []), ...marked])
  return {
    file: relative(root, path),
    parts: [...neededParts],
    peers: path.endsWith('.peers.test.ts'),
    sized: text.includes('@brokkr/testing/sizes.ts'),
    // A test of more than about five seconds has a comment with the reason above its first import.
    long: /^\/\/ long: ./m.test(text.slice(0, text.indexOf('import '))),
  }
}

function* walk(dir) {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    if (skipped.has(entry.name)) continue
    const path = join(dir, entry.name)
    if (entry.isDirectory()) yield* walk(path)
    else if (entry.name.endsWith('.test.ts')) yield path
  }
}
