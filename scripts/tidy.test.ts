// Checks the rules of the code base that a test can judge: import directions, constructs that only named files may use, unused
// exports, private paths of libraries, names of files, texts that no tracked file may contain. ARCHITECTURE.md lists the directions.
import { execFileSync } from 'node:child_process'
import { lstatSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
  maxBuffer: 1 << 26,
})
  .split('\0')
  .filter((file) => file !== '' && !lstatSync(join(root, file)).isSymbolicLink())
const sources = tracked.filter((file) => /\.(ts|tsx|mjs)$/.test(file) && !file.endsWith('.d.ts'))
const texts = new Map<string, string>()
/** Reads each file once. */
function textOf(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(root, file), 'utf8')
  texts.set(file, text)
  return text
}
/** Tests, and what only tests use. */
const isTest = (file: string): boolean => /\.(test|fixture)\.ts$/.test(file) || /\/(fixtures|test-parts)\//.test(file)

/** Package → packages of ours it may import. */
const packageImports: Record<string, readonly string[]> = {
  contract: [],
  client: ['contract'],
  runtime: [],
  postgres: ['runtime'],
  kube: ['runtime'],
  broker: ['contract', 'runtime', 'postgres'],
  agent: ['contract', 'client', 'runtime', 'kube'],
  pipelines: ['contract', 'client', 'runtime', 'kube'],
  dataflow: ['contract', 'runtime', 'kube', 'postgres'],
  local: ['runtime'],
  console: ['contract', 'client'],
  cli: ['contract', 'client', 'runtime', 'postgres', 'kube', 'local', 'broker', 'agent', 'pipelines', 'dataflow'],
  testing: ['contract', 'client', 'runtime', 'postgres', 'kube', 'local', 'broker', 'agent', 'pipelines', 'dataflow', 'cli'],
}
/** The modules of a program that the CLI may import. */
const startedByCli = /^@brokkr\/(broker|agent|pipelines|dataflow)\/(main|config|commands|operator\/main|processor\/main)\.ts$/

/** Inside a package: folder → folders (or files) of the same package that it may import. Folders without an entry are free. */
const inside: Record<string, Record<string, readonly string[]>> = {
  pipelines: {
    decide: ['decide', 'objects.ts'],
    apps: ['apps'],
    clusters: ['clusters', 'apps'],
    git: ['git', 'strategies/strategy.ts'],
    forges: ['forges', 'strategies/strategy.ts'],
    stacks: ['stacks', 'apps', 'git', 'strategies/strategy.ts'],
    strategies: ['strategies', 'git', 'forges', 'stacks', 'objects.ts'],
    approvals: ['approvals', 'decide', 'objects.ts'],
    hooks: ['hooks', 'approvals', 'decide', 'objects.ts'],
  },
  agent: {
    connection: ['connection', 'desired-state', 'identity', 'policy', 'config.ts', 'metrics.ts'],
    'desired-state': ['desired-state', 'identity', 'reconcile', 'reporting'],
    reconcile: [
      'reconcile',
      'connection',
      'desired-state',
      'identity',
      'policy',
      'reporting',
      'agent-loops.ts',
      'cluster.ts',
      'config-reconcile.ts',
      'metrics.ts',
      'version.ts',
      'start-subsystems.ts',
    ],
    reporting: [
      'reporting',
      'connection',
      'desired-state',
      'policy',
      'reconcile',
      'agent-loops.ts',
      'metrics.ts',
      'version.ts',
      'start-subsystems.ts',
    ],
    policy: ['policy', 'reporting', 'metrics.ts'],
    'work-orders': [
      'work-orders',
      'diagnostics',
      'policy',
      'reconcile',
      'reporting',
      'config-operations.ts',
      'metrics.ts',
      'start-operations.ts',
    ],
    diagnostics: ['diagnostics', 'policy', 'reconcile', 'reporting', 'config-operations.ts', 'start-operations.ts'],
    webhooks: ['webhooks', 'reporting', 'config-operations.ts', 'start-operations.ts', 'version.ts'],
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

test('the table of directions lists every package', () => {
  const found = new Set(tracked.flatMap((file) => packageOf(file) ?? []))
  expect([...found].filter((name) => !(name in packageImports))).toEqual([])
})

test('the command line imports only the entry modules of programs', () => {
  const wrong = imports.filter(
    ({ file, specifier }) =>
      packageOf(file) === 'cli' &&
      !isTest(file) &&
      /^@brokkr\/(broker|agent|pipelines|dataflow)\//.test(specifier) &&
      !startedByCli.test(specifier),
  )
  expect(wrong).toEqual([])
})

test('the client imports nothing at run time', () => {
  const isErased = ({ file, specifier }: Import) => new RegExp(`import type [^;]*? from '${specifier}'`).test(textOf(file))
  const wrong = imports.filter(
    (one) => packageOf(one.file) === 'client' && !isTest(one.file) && !one.specifier.startsWith('.') && !isErased(one),
  )
  expect(wrong).toEqual([])
  const { dependencies = {} } = JSON.parse(textOf('packages/client/package.json')) as { dependencies?: Record<string, string> }
  expect(dependencies).toEqual({})
})

test('folders of a package import in one direction', () => {
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

/** Layers of the broker, read from the path: a feature has `routes`, `actions`, `store`, `rules` and `tasks`, each a file or a folder.
 *  Another file of a feature counts as an action. Files at the top are named one by one. `startup` is part of the composition root; `live`
 *  serves sockets beside the HTTP server. */
function brokerLayer(path: string): string {
  const parts = path.replace(/\.ts$/, '').split('/')
  if (parts.length === 1) return path
  if (parts[0] === 'startup') return 'startup'
  const layer = ['routes', 'actions', 'store', 'rules', 'tasks'].find((name) => parts.includes(name))
  if (layer !== undefined) return layer
  if (parts[0] === 'http' || parts[0] === 'auth') return 'http'
  if (parts[0] === 'change-feed' || parts[0] === 'live') return parts[0]
  return parts[0] === 'schema' ? 'store' : 'actions'
}

/** Layer → layers, or single files, that it may import. Only the server imports routes; rules are pure. */
const brokerLayers: Record<string, readonly string[]> = {
  rules: ['rules'],
  store: ['store', 'rules', 'assets.ts'],
  actions: ['actions', 'store', 'rules', 'seal.ts', 'assets.ts', 'change-feed/reader/cursor.ts', 'http/request/large-body.ts'],
  tasks: ['tasks', 'actions', 'store', 'rules', 'seal.ts'],
  routes: ['actions', 'store', 'rules', 'http', 'change-feed', 'seal.ts', 'deps.ts'],
  'change-feed': ['change-feed', 'store', 'rules', 'change-feed/actions.ts', 'deployments/manifest-cache.ts'],
  live: ['live', 'actions', 'store', 'rules', 'http', 'change-feed', 'seal.ts'],
  http: ['http', 'routes', 'actions', 'store', 'rules', 'change-feed', 'deps.ts', 'config.ts', 'seal.ts', 'assets.ts'],
}

test('layers of the broker import in one direction', () => {
  const source = 'packages/broker/src'
  const wrong = imports.filter(({ file, specifier }) => {
    if (!file.startsWith(`${source}/`) || isTest(file) || !specifier.startsWith('.')) return false
    const allowed = brokerLayers[brokerLayer(posix.relative(source, file))]
    const target = posix.relative(source, posix.join(posix.dirname(file), specifier))
    return allowed !== undefined && !allowed.includes(brokerLayer(target)) && !allowed.includes(target)
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

/** Pattern → files that may contain it. A new file is added here, where a reviewer sees it. */
const onlyIn: { what: string; pattern: RegExp; files: RegExp }[] = [
  { what: '[X18] predictable random numbers', pattern: /\bMath\.random\b/, files: /^packages\/runtime\/src\/backoff\.ts$/ },
  {
    what: 'child processes',
    pattern: /['"](?:node:)?child_process['"]/,
    files:
      /^(scripts\/|bench\/|packages\/testing\/src\/|packages\/local\/src\/supervisor\/(spawn-owned|process-table)\.ts$|packages\/kube\/src\/auth\/exec-credential\.ts$|packages\/cli\/src\/up\/|packages\/pipelines\/src\/git\/run-git\.ts$)/,
  },
  { what: '[X26] a shell', pattern: /\bshell:\s*true\b|(?<![.\w])exec(?:Sync)?\(/, files: /^(?!)/ },
  { what: 'worker threads', pattern: /new Worker\(/, files: /^packages\/runtime\/src\/workers\/(worker-pool|owned-worker)\.ts$/ },
  { what: 'unverified TLS', pattern: /rejectUnauthorized:\s*false/, files: /^packages\/testing\/src\// },
  {
    what: 'the plain text of secrets',
    pattern: /\.reveal\(\)/,
    files:
      /^packages\/(runtime\/src\/(secret|config\/[a-z-]+)\.ts|broker\/src\/(open-database|forward\/forwarder)\.ts|agent\/src\/identity\/start-session\.ts|pipelines\/src\/main\.ts|cli\/src\/[a-z/-]+\.ts)$/,
  },
]

test.each(onlyIn)('only the listed files use $what', ({ pattern, files }) => {
  const wrong = sources.filter(
    (file) => !isTest(file) && file !== 'scripts/tidy.test.ts' && !files.test(file) && pattern.test(codeOf(textOf(file))),
  )
  expect(wrong).toEqual([])
})

/** Comments may mention what the code must not use. */
const codeOf = (text: string): string => text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '')

test('[X26] only files that own a connection send SQL', () => {
  const allowed = /^packages\/broker\/src\/(schema\/(migrate|apply-migration)|change-feed\/reader\/(reader|listener))\.ts$/
  const wrong = sources.filter(
    (file) =>
      file.startsWith('packages/broker/src/') &&
      !isTest(file) &&
      !allowed.test(file) &&
      /\b(sql|client|pool|db|database|on|tx)\.query\(/.test(textOf(file)),
  )
  expect(wrong).toEqual([])
})

test('no tracked file names a package registry or a path of a development machine', () => {
  // Joined at run time, so that this file does not contain the texts.
  const hosts = ['registry.|npmjs', 'pypi.|org', 'proxy.|golang', 'repo.|maven', 'repo1.|maven', 'crates.|io/api', 'deb.|debian'].map(whole)
  const paths = ['/wor|k/', '/roo|t/', '/hom|e/'].map(whole)
  const text = tracked.filter((file) => !/\.(png|woff2|ico|gz)$/.test(file))
  const wrong = text.flatMap((file) => [...hosts, ...paths].filter((word) => textOf(file).includes(word)).map((word) => `${file}: ${word}`))
  expect(wrong).toEqual([])
})

const whole = (parts: string): string => parts.replace('|', '')

test('no test is skipped, focused or retried', () => {
  const pattern = new RegExp(`\\b(test|it|describe)\\.(${['skip', 'only', 'todo', 'fails', 'skipIf'].join('|')})\\b|\\bretry:\\s*[1-9]`)
  expect(sources.filter((file) => isTest(file) && pattern.test(codeOf(textOf(file))))).toEqual([])
})

test('every mutant applies to the tree', () => {
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

test('operator and processor of data flows share only the contract', () => {
  const wrong = imports.filter(({ file, specifier }) => {
    const [, from] = /^packages\/dataflow\/src\/(operator|processor)\//.exec(file) ?? []
    if (from === undefined || isTest(file) || !specifier.startsWith('.')) return false
    const other = from === 'operator' ? 'processor' : 'operator'
    return posix.join(posix.dirname(file), specifier).startsWith(`packages/dataflow/src/${other}/`)
  })
  expect(wrong).toEqual([])
})

test('no module imports a private path of a library', () => {
  const isPrivate = /^(?!\.|node:|@brokkr\/)(?:@[^/]+\/)?[^/]+\/(?:lib|dist|src|build|internal|esm|cjs)\//
  // The documentation of the library names these paths for JSON Schema 2019-09 and 2020-12.
  const documented = ['ajv/dist/2019.js', 'ajv/dist/2020.js']
  expect(imports.filter(({ specifier }) => isPrivate.test(specifier) && !documented.includes(specifier))).toEqual([])
})

test('every ADR has its own number', () => {
  const numbers = tracked.flatMap((file) => /^docs\/adr\/(\d{4})-/.exec(file)?.[1] ?? [])
  expect(numbers.length).toBeGreaterThan(20)
  expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([])
})

test('files and folders are named after what they do', () => {
  const vague = /(?:^|[/-])(?:utils?|helpers?|common|managers?|misc)(?:\/|\.[a-z.]+$)/
  expect(sources.filter((file) => vague.test(file))).toEqual([])
})

/** Code that the next test does not check yet. */
const isUnchecked = (file: string): boolean => /^packages\/(pipelines|contract\/src\/pipelines)\//.test(file)

test('every exported value is imported by another module', () => {
  const used = new Set(sources.flatMap(namesImportedBy))
  const modules = sources.filter((file) => packageOf(file) !== undefined && !isUnchecked(file) && !isTest(file) && !used.has(`${file}#*`))
  const unused = modules.flatMap((file) =>
    exportedValues(textOf(file))
      .filter((name) => !used.has(`${file}#${name}`))
      .map((name) => `${file} ${name}`),
  )
  expect(unused).toEqual([])
})

/** Values whose name is not a type too: a schema and its type share one name and are exported together. */
function exportedValues(text: string): string[] {
  const names = (kinds: string) =>
    [...text.matchAll(new RegExp(`^export (?:async )?(?:abstract )?(?:${kinds}) (\\w+)`, 'gm'))].map(([, name]) => name!)
  const types = new Set(names('type|interface'))
  return names('const|let|function\\*?|class').filter((name) => !types.has(name))
}

/** `file#name` of every imported name, `file#*` where a module is imported as a whole and not by its members. */
function namesImportedBy(file: string): string[] {
  const text = textOf(file)
  const members = (name: string) => [...text.matchAll(new RegExp(`\\b${name}\\.(\\w+)`, 'g'))].map(([, member]) => member!)
  const statements = [
    ...text.matchAll(/\b(?:import|export)\s+(?:type\s+)?(?:\*\s+as\s+(\w+)|(\*)|\w*,?\s*\{([^}]*)\})\s+from\s+'([^']+)'/g),
  ]
  const fromStatements = statements.flatMap(([, namespace, all, list, specifier]) => {
    const names =
      list?.split(',').map(
        (entry) =>
          entry
            .trim()
            .replace(/^type\s+/, '')
            .split(/\s+as\s+/)[0]!,
      ) ?? []
    const isWhole =
      all !== undefined ||
      (namespace !== undefined && new RegExp(`[^.\\w]${namespace}\\b(?!\\.)`).test(text.replace(`* as ${namespace}`, '')))
    return [...names, ...(namespace === undefined ? [] : members(namespace)), ...(isWhole ? ['*'] : [])].map(
      (name) => `${moduleFile(file, specifier!)}#${name}`,
    )
  })
  const dynamic = [...text.matchAll(/import\('([^']+)'\)/g)].map(([, specifier]) => `${moduleFile(file, specifier!)}#*`)
  return [...fromStatements, ...dynamic]
}

function moduleFile(from: string, specifier: string): string {
  const [, name, path] = /^@brokkr\/([^/]+)(?:\/(.+))?$/.exec(specifier) ?? []
  return name === undefined ? posix.join(posix.dirname(from), specifier) : `packages/${name}/src/${path ?? 'index.ts'}`
}

test('a package exports only modules that another package imports', () => {
  const outside = sources.flatMap((file) =>
    [...textOf(file).matchAll(/['"`]@brokkr\/([a-z-]+)(?:\/([^'"`\s]+))?['"`]/g)].map(([, name, path]) => ({
      from: packageOf(file),
      name,
      entry: path === undefined ? '.' : `./${path}`,
    })),
  )
  const importedFrom = (name: string): Set<string> =>
    new Set(outside.filter((entry) => entry.name === name && entry.from !== name).map(({ entry }) => entry))
  const manifests = tracked.filter((file) => /^packages\/[^/]+\/package\.json$/.test(file))
  const wrong = manifests.flatMap((file) => {
    const listed = Object.keys((JSON.parse(textOf(file)) as { exports?: Record<string, string> }).exports ?? {})
    const imported = importedFrom(packageOf(file)!)
    return listed.filter((entry) => !imported.has(entry)).map((entry) => `${file}: ${entry}`)
  })
  expect(wrong).toEqual([])
})
