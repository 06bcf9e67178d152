#!/usr/bin/env node
// brokkr …: every program is a subcommand. Commands are loaded on use, so that `--help` stays fast.
import { checkArguments } from './arguments.ts'
import { commandGroups, commands } from './commands/index.ts'
import { printFailure } from './output.ts'
import { buildProgram } from './program.ts'

// A reader such as `head` may close the pipe early; nobody reads the rest.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

try {
  checkArguments(process.argv.slice(2))
  await buildProgram(commands, commandGroups).parseAsync()
} catch (error) {
  process.exitCode = printFailure(error)
}
