// Runs the real Helm against a folder of its own, so that nothing of the machine's Helm is read or written.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { ensureHelm } from './helm-program.ts'

export interface Helm {
  /** Output of one call; rejects with the output of a call that failed. */
  run(...args: readonly string[]): Promise<string>
  /** Writes values as a file and returns its path, for `--values`. */
  valuesFile(values: unknown): Promise<string>
  close(): Promise<void>
}

const callMs = 120_000

export async function openHelm(options: { readonly kubeconfigPath?: string } = {}): Promise<Helm> {
  const program = await ensureHelm()
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-helm-'))
  const homes = ['CACHE', 'CONFIG', 'DATA'].map((name) => [`HELM_${name}_HOME`, join(dir, name.toLowerCase())])
  const env = { HOME: dir, ...Object.fromEntries(homes), KUBECONFIG: options.kubeconfigPath ?? join(dir, 'no-kubeconfig') }
  let count = 0
  return {
    run: (...args) => {
      count += 1
      return runTool({ name: 'helm', command: program, args, cwd: dir, env, logFile: join(dir, `${count}.log`), timeoutMs: callMs })
    },
    async valuesFile(values) {
      count += 1
      const file = join(dir, `values-${count}.json`)
      await writeFile(file, JSON.stringify(values), { mode: 0o600 })
      return file
    },
    close: () => rm(dir, { recursive: true, force: true }),
  }
}
