// The command line as a process: standard output, standard error and exit code apart, as scripts see them.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { z } from 'zod'

const main = fileURLToPath(new URL('../main.ts', import.meta.url))

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}
export interface Running {
  readonly child: ChildProcess
  readonly stdout: () => string
  readonly ended: Promise<Ended>
}
export interface CommandLine {
  /** Its working directory. */
  readonly folder: string
  readonly start: (args: readonly string[], more?: { stdin?: string; env?: Record<string, string> }) => Running
  readonly run: (args: readonly string[], more?: { stdin?: string; env?: Record<string, string> }) => Promise<Ended>
  /** Succeeds with nothing on standard error, and returns its standard output. */
  readonly ok: (...args: string[]) => Promise<string>
  /** The same with `-o json`, checked against a schema of the contract. */
  readonly json: <T extends z.ZodType>(schema: T, ...args: string[]) => Promise<z.output<T>>
  /** Fails with this exit code, nothing on standard output, and a message that has a next step. */
  readonly fails: (code: number, ...args: string[]) => Promise<string>
  readonly write: (name: string, text: string) => Promise<string>
}

export async function openCommandLine(broker?: { url: string; adminPak: string }): Promise<CommandLine> {
  const folder = await mkdtemp(join(tmpdir(), 'brokkr-cli-'))
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text)
    return join(folder, name)
  }
  const access = broker === undefined ? {} : { BROKKR_BROKER_URL: broker.url, BROKKR_PAK_FILE: await write('admin.pak', broker.adminPak) }
  const start: CommandLine['start'] = (args, more = {}) => {
    const env = { PATH: process.env['PATH'] ?? '', HOME: folder, XDG_CONFIG_HOME: join(folder, 'config'), ...access, ...more.env }
    const child = spawn(process.execPath, [main, ...args], { cwd: folder, env, stdio: ['pipe', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
    child.stdin.on('error', () => undefined)
    child.stdin.end(more.stdin ?? '')
    return { child, stdout: () => stdout, ended: new Promise((resolve) => child.on('close', (code) => resolve({ code, stdout, stderr }))) }
  }
  const run: CommandLine['run'] = (args, more) => start(args, more).ended
  const ok: CommandLine['ok'] = async (...args) => {
    const ended = await run(args)
    expect(ended, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
    return ended.stdout
  }
  return {
    folder,
    start,
    run,
    ok,
    json: async (schema, ...args) => {
      const value: unknown = JSON.parse(await ok(...args, '-o', 'json'))
      expect(schema.safeParse(value).error?.issues, args.join(' ')).toBeUndefined()
      return value as z.output<typeof schema>
    },
    fails: async (code, ...args) => {
      const ended = await run(args)
      expect({ code: ended.code, stdout: ended.stdout }, `${args.join(' ')}\n${ended.stderr}`).toEqual({ code, stdout: '' })
      expect(ended.stderr).toMatch(/^error: /m)
      expect(ended.stderr).toMatch(/ {2}next {2}|Did you mean|--help|error: option|error: required|error: missing/)
      return ended.stderr
    },
    write,
  }
}
