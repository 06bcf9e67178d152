// What a test can hold of the house rules: who imports whom, what may be used only in named files, what no tracked file may
// say. The list of allowed directions is the one of ARCHITECTURE.md.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 1 << 26,
})
  .split('\0')
  .filter((file) => file !== '')
const sources = tracked.filter((file) => /\.(ts|tsx|mjs)$/.test(file) && !file.endsWith('.d.ts'))
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
/** Tests, and what only tests use. */
const isTest = (file: string): boolean => /\.(test|fixture)\.ts$/.test(file) || /\/(fixtures|test-parts)\//.test(file)

/** Package → packages of ours it may import. */
const packageImports: Record<string, readonly string[]> = {
  contract: [],
  runtime: [],
  kube: ['runtime'],
  broker: ['contract', 'runtime'],
  agent: ['contract', 'runtime', 'kube'],
  pipelines: ['contract', 'runtime', 'kube'],
  dataflow: ['contract', 'runtime', 'kube'],
  local: ['runtime'],
  console: ['contract'],
  cli: ['contract', 'runtime', 'kube', 'local', 'broker', 'agent', 'pipelines', 'dataflow'],
  testing: ['contract', 'runtime', 'kube', 'local', 'broker', 'agent', 'pipelines', 'dataflow', 'cli'],
}
/** Of a program the CLI may import only what starts it. */
const startedByCli = /^@brokkr\/(broker|agent|pipelines|dataflow)\/(main|config|commands|operator\/main|processor\/main)\.ts$/

/** Inside a package: folder → folders (or files) of the same package it may import; what is not listed is free. */
const inside: Record<string, Record<string, readonly string[]>> = {
  broker: {
    domain: ['domain'],
    store: ['store', 'domain', 'assets.ts'],
    actions: ['actions', 'store', 'domain', 'seal.ts', 'audit.ts', 'webhooks', 'feed/cursor.ts'],
    feed: ['feed', 'store', 'domain', 'revision-texts.ts'],
    webhooks: ['webhooks', 'store', 'domain', 'seal.ts', 'audit.ts'],
    tasks: ['tasks', 'actions', 'store', 'domain', 'webhooks', 'seal.ts', 'audit.ts'],
    http: ['http', 'actions', 'store', 'domain', 'feed', 'deps.ts', 'config.ts', 'seal.ts', 'audit.ts', 'forward.ts', 'assets.ts'],
  },
  agent: {
    reconcile: ['reconcile', 'policy.ts', 'metrics.ts'],
    health: ['health', 'reconcile/marks.ts', 'policy.ts'],
    inventory: ['inventory'],
    loops: [
      'loops',
      'health',
      'follow.ts',
      'follow',
      'session.ts',
      'reconcile',
      'work-orders',
      'diagnostics',
      'config.ts',
      'metrics.ts',
      'state-file.ts',
      'policy.ts',
      'write-permit.ts',
      'broker-http.ts',
      'keys.ts',
      'own-key.ts',
      'telemetry',
      'inventory',
    ],
  },
}

interface Import {
  readonly file: string
  readonly specifier: string
}
const imports: Import[] = sources.flatMap((file) =>
  [
    ...textOf(file).matchAll(
      /(?:^|\n)\s*(?:import|export)[^'"\n]*?from\s+'([^']+)'|(?:^|\n)\s*import\s+'([^']+)'|\bimport\('([^']+)'\)|\n\} from '([^']+)'/g,
    ),
  ].map((match) => ({
    file,
    specifier: match[1] ?? match[2] ?? match[3] ?? match[4]!,
  })),
)
const packageOf = (file: string): string | undefined => /^packages\/([^/]+)\//.exec(file)?.[1]

test('every package imports only the packages below it', () => {
  const wrong = imports.filter(({ file, specifier }) => {
    const from = packageOf(file)
    const to = /^@brokkr\/([^/]+)/.exec(specifier)?.[1]
    if (from === undefined || to === undefined || from === to) return false
    if (to === 'testing') return !isTest(file)
    return !isTest(file) && packageImports[from]?.includes(to) !== true
  })
  expect(wrong).toEqual([])
})

test('every package of the tree stands in the table of directions', () => {
  const found = new Set(tracked.flatMap((file) => packageOf(file) ?? []))
  expect([...found].filter((name) => !(name in packageImports))).toEqual([])
})

test('the command line starts programs and takes nothing else of them', () => {
  const wrong = imports.filter(
    ({ file, specifier }) =>
      packageOf(file) === 'cli' &&
      !isTest(file) &&
      /^@brokkr\/(broker|agent|pipelines|dataflow)\//.test(specifier) &&
      !startedByCli.test(specifier),
  )
  expect(wrong).toEqual([])
})

test('inside a package the folders import in one direction', () => {
  const wrong = imports.filter(({ file, specifier }) => {
    const name = packageOf(file)
    if (name === undefined || isTest(file) || !specifier.startsWith('.')) return false
    const within = posix.relative(`packages/${name}/src`, file)
    const allowed = inside[name]?.[within.split('/')[0]!]
    if (allowed === undefined || !within.includes('/')) return false
    const target = posix.relative(`packages/${name}/src`, posix.join(posix.dirname(file), specifier))
    return !allowed.some((place) => target === place || target.startsWith(`${place}/`))
  })
  expect(wrong).toEqual([])
})

test('relative imports stay inside their package', () => {
  const wrong = imports.filter(({ file, specifier }) => {
    const name = packageOf(file)
    return name !== undefined && specifier.startsWith('.') && !posix.join(posix.dirname(file), specifier).startsWith(`packages/${name}/`)
  })
  expect(wrong).toEqual([])
})

/** Pattern → files that may hold it. Whoever needs another place adds it here, where a reviewer sees it. */
const onlyIn: { what: string; pattern: RegExp; files: RegExp }[] = [
  { what: '[X18] randomness that can be guessed', pattern: /\bMath\.random\b/, files: /^packages\/runtime\/src\/backoff\.ts$/ },
  {
    what: 'processes',
    pattern: /['"](?:node:)?child_process['"]/,
    files:
      /^(scripts\/|bench\/|packages\/testing\/src\/|packages\/local\/src\/(spawn-owned|process-table)\.ts$|packages\/kube\/src\/exec-credential\.ts$|packages\/cli\/src\/up\/)/,
  },
  { what: '[X26] a shell', pattern: /\bshell:\s*true\b|(?<![.\w])exec(?:Sync)?\(/, files: /^(?!)/ },
  { what: 'worker threads', pattern: /new Worker\(/, files: /^packages\/runtime\/src\/(worker-pool|owned-worker)\.ts$/ },
  { what: 'unverified TLS', pattern: /rejectUnauthorized:\s*false/, files: /^packages\/testing\/src\// },
  {
    what: 'clear text of secrets',
    pattern: /\.reveal\(\)/,
    files:
      /^packages\/(runtime\/src\/(secret|config[a-z-]*)\.ts|broker\/src\/(main|open-store)\.ts|agent\/src\/(main|session|start-session)\.ts|cli\/src\/[a-z/-]+\.ts)$/,
  },
]

test.each(onlyIn)('$what: only in the named files', ({ pattern, files }) => {
  const wrong = sources.filter(
    (file) => !isTest(file) && file !== 'scripts/tidy.test.ts' && !files.test(file) && pattern.test(codeOf(textOf(file))),
  )
  expect(wrong).toEqual([])
})

/** Comments may name what the code must not use. */
const codeOf = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')

test('[X26] SQL is sent from the statement helper and the few files that own a connection', () => {
  const allowed = /^packages\/broker\/src\/(store\/(sql|db|migrate|named-query|transactions)|feed\/(reader|listener))\.ts$/
  const wrong = sources.filter(
    (file) =>
      file.startsWith('packages/broker/src/') &&
      !isTest(file) &&
      !allowed.test(file) &&
      /\b(sql|client|pool|db|database|on|tx)\.query\(/.test(textOf(file)),
  )
  expect(wrong).toEqual([])
})

test('no tracked file names a registry, or a path of the machine it was written on', () => {
  // Put together here, so that this file does not hold what it looks for.
  const hosts = ['registry.|npmjs', 'pypi.|org', 'proxy.|golang', 'repo.|maven', 'repo1.|maven', 'crates.|io/api', 'deb.|debian'].map(whole)
  const paths = ['/wor|k/', '/roo|t/', '/hom|e/'].map(whole)
  const text = tracked.filter((file) => !/\.(png|woff2|ico|gz)$/.test(file))
  const wrong = text.flatMap((file) => [...hosts, ...paths].filter((word) => textOf(file).includes(word)).map((word) => `${file}: ${word}`))
  expect(wrong).toEqual([])
})

const whole = (parts: string): string => parts.replace('|', '')

test('no test is skipped, focused or tried again until it passes', () => {
  const pattern = new RegExp(`\\b(test|it|describe)\\.(${['skip', 'only', 'todo', 'fails', 'skipIf'].join('|')})\\b|\\bretry:\\s*[1-9]`)
  expect(sources.filter((file) => isTest(file) && pattern.test(codeOf(textOf(file))))).toEqual([])
})

test('every mutant still applies to the tree, so that it can be run', () => {
  const patches = tracked.filter((file) => /^mutants\/.*\.patch$/.test(file))
  expect(patches.length).toBeGreaterThan(50)
  const stale = patches.filter((file) => {
    try {
      execFileSync('git', ['apply', '--check', file], { cwd: root, stdio: 'ignore' })
      return false
    } catch {
      return true
    }
  })
  expect(stale).toEqual([])
})
