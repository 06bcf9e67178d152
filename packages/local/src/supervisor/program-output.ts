// Runs a program that prints a result and exits, such as its version.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { runTool } from './run-tool.ts'

export async function readProgramOutput(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const cwd = await mkdtemp(join(tmpdir(), 'brokkr-ask-'))
  try {
    const name = `${basename(command)} ${args.join(' ')}`
    return await runTool({ name, command, args, cwd, env, logFile: join(cwd, 'answer'), timeoutMs: 30_000 })
  } finally {
    await rm(cwd, { recursive: true, force: true })
  }
}
