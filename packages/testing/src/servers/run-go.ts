// Runs one go command for a peer that is built from its module, in the environment and cache that the builds of Kubernetes use.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { buildGoEnvironment } from '@brokkr/local/assets/go-environment.ts'
import type { GoToolchain } from '@brokkr/local/assets/go-toolchain.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'

export interface GoRun {
  /** Name of the peer and of the step, for messages and the log file. */
  readonly peer: string
  readonly step: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly cache: string
  readonly env: NodeJS.ProcessEnv
  readonly signal?: AbortSignal | undefined
}

const hourMs = 3_600_000

export async function runGo(go: GoToolchain, run: GoRun): Promise<string> {
  const logs = join(run.cache, 'go', 'logs')
  await mkdir(logs, { recursive: true })
  return runTool({
    name: `go ${run.step}`,
    command: go.go,
    args: run.args,
    cwd: run.cwd,
    env: buildGoEnvironment(go.toolchain, run.cache, run.env),
    logFile: join(logs, `${run.peer}-${run.step}.log`),
    timeoutMs: 2 * hourMs,
    isBackground: true,
    ...(run.signal === undefined ? {} : { signal: run.signal }),
  })
}
