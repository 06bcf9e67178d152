// `--watch`: prints a screen again after each change that the feed reports. A lost connection resumes by its cursor.
import type { Client } from '@brokkr/client'
import type { Cli } from './cli.ts'
import type { Form } from './command.ts'
import { CliError, exitCodes, printError } from './output.ts'
import { showLine, type View } from './show.ts'

/** Changes within this time are shown together. */
const collectMs = 200

/** Calls `look` once and then after changes, until Ctrl-C. */
export async function repeatOnChange(cli: Cli, client: Client, scope: readonly string[], look: () => Promise<void>): Promise<void> {
  const signal = cli.interruption('stopped watching')
  let isDirty = false
  let running: Promise<void> | null = null
  const start = () => {
    isDirty = true
    running ??= (async () => {
      while (isDirty) {
        await new Promise((resolve) => setTimeout(resolve, collectMs))
        isDirty = false
        await look()
      }
      running = null
    })()
    return running
  }
  await look()
  try {
    for await (const event of client.watch({ scope, signal })) {
      if (event.type === 'lost' && event.error !== null && process.stderr.isTTY) printError(`connection lost: ${event.error.message}`)
      if (event.type === 'change' || (event.type === 'open' && event.mode === 'reset')) void start().catch(fail)
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason as Error
    throw error
  }
}

/** A watch that cannot read any more must not stay silent. */
function fail(error: unknown): never {
  printError(`error: ${error instanceof Error ? error.message : String(error)}`)
  process.exit(exitCodes.failed)
}

/** Prints the view whenever it differs from the last one. A terminal is cleared first. */
export function screenPrinter(form: Form): (view: View) => void {
  let last = ''
  return (view) => {
    const text = JSON.stringify([view.value, view.lines?.() ?? view.table?.()])
    if (text === last) return
    last = text
    if (process.stdout.isTTY && form !== 'json') process.stdout.write('\u001b[2J\u001b[H')
    showLine(form, view)
  }
}

/** Scopes for everything of some kinds. A generator may watch only itself, and this includes its stacks. */
export async function scopesOf(client: Client, kinds: readonly string[]): Promise<string[]> {
  const owner = await client.verifyPak({})
  if (owner.generator !== null) return [`generator:${owner.generator}`]
  if (!owner.admin)
    throw new CliError('the PAK of an agent cannot watch lists', { next: 'use an admin or generator PAK', exitCode: exitCodes.notAllowed })
  return kinds.map((kind) => `kind:${kind}`)
}
