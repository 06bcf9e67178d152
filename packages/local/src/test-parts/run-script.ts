// Another process of ours that a test can talk to and kill: a piece of module code that imports the files beside this folder as
// `local/<name>.ts` and writes lines.
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { onTestFinished } from 'vitest'

export type Script = {
  readonly pid: number
  /** The next line that it writes; throws with its error output when it ends first. */
  line(): Promise<string>
  kill(signal: NodeJS.Signals): void
  /** Ends its standard input, which scripts wait for by `await ended()`. */
  release(): void
  readonly exited: Promise<void>
}

export function runScript(source: string, args: string[] = []): Script {
  const here = new URL('../', import.meta.url).href
  const code = `${prelude}\n${source.replaceAll("'local/", `'${here}`)}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code, '--', ...args], { stdio: ['pipe', 'pipe', 'pipe'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let errors = ''
  child.stderr.on('data', (piece: Buffer) => (errors += piece.toString()))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    pid: pidOf(child),
    line: async () => {
      const { value, done } = await lines.next()
      if (done === true) throw new Error(`the script ended without a line: ${errors}`)
      return value
    },
    kill: (signal) => void child.kill(signal),
    release: () => child.stdin.end(),
    exited: new Promise((resolve) => child.once('exit', () => resolve())),
  }
}

const prelude = `
import { once } from 'node:events'
const say = (line) => process.stdout.write(line + '\\n')
const ended = async () => { process.stdin.resume(); await once(process.stdin, 'end') }
`

function pidOf(child: ChildProcessByStdio<Writable, Readable, Readable>): number {
  if (child.pid === undefined) throw new Error('the script did not start')
  return child.pid
}
