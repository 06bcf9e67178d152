// Runs commands in one process, one after the other, for tests that run many: a start per command would take most of their time.
// Each message has the arguments of one command; the answer has its standard output, standard error and exit code.
import { checkArguments } from '../arguments.ts'
import { commandGroups, commands } from '../commands/index.ts'
import { printFailure } from '../output.ts'
import { buildProgram } from '../program.ts'

async function run(args: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  let [stdout, stderr] = ['', '']
  process.stdout.write = (chunk: string | Uint8Array) => ((stdout += String(chunk)), true)
  process.stderr.write = (chunk: string | Uint8Array) => ((stderr += String(chunk)), true)
  process.exitCode = undefined
  try {
    checkArguments(args)
    await buildProgram(commands, commandGroups).parseAsync([...args], { from: 'user' })
  } catch (error) {
    process.exitCode = printFailure(error)
  }
  return { code: process.exitCode ?? 0, stdout, stderr }
}

process.on('message', (args: readonly string[]) => void run(args).then((ended) => process.send!(ended)))
process.on('disconnect', () => process.exit(0))
