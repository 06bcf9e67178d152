// The one way to change something: dry run, confirmation, secrets that are shown once.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import type { ChangeOptions, Form } from './command.ts'
import { CliError, exitCodes, print, printError } from './output.ts'
import { show } from './show.ts'

/** Performs a change, or says what it would do: then the result is null. */
export async function change<T>(options: Pick<ChangeOptions, 'output' | 'dryRun'>, what: string, act: () => Promise<T>): Promise<T | null> {
  if (options.dryRun !== true) return act()
  show(options.output, { value: { dry_run: true, would: what }, names: [], lines: () => [`would ${what}`] })
  return null
}

/** Shows the consequences and asks for the name. `--yes` answers in advance; without a terminal it is required. */
export async function confirm(options: ChangeOptions, name: string, consequences: readonly string[]): Promise<void> {
  if (options.yes === true || options.dryRun === true) return
  for (const line of consequences) printError(line)
  if (!process.stdin.isTTY)
    throw new CliError(`${name} was not confirmed`, {
      where: consequences.join('; '),
      next: 'add --yes to confirm it without a terminal, or --dry-run to see what would be done',
      exitCode: exitCodes.refused,
    })
  const lines = createInterface({ input: process.stdin, output: process.stderr })
  const answer = await lines.question(`type "${name}" to confirm: `).finally(() => lines.close())
  if (answer.trim() !== name) throw new CliError(`${name} was not confirmed; nothing was changed`, { exitCode: exitCodes.refused })
}

export interface Secret {
  readonly what: string
  readonly text: string
  /** The answer of the broker, which contains the secret. */
  readonly value: unknown
}

/** Prints only the secret to standard output, so that it can be piped into a file. With `--out` it is not printed at all. */
export async function giveSecret(options: { output: Form; out?: string }, secret: Secret): Promise<void> {
  if (options.out !== undefined) {
    await writeSecret(options.out, secret.text)
    print(`${secret.what}; its secret is in ${options.out}`)
  } else if (options.output === 'json' || options.output === 'yaml') show(options.output, { value: secret.value, names: [] })
  else {
    printError(`${secret.what}; its secret is shown once:`)
    print(secret.text)
  }
}

/** A new file for its owner only; never over another file or through a link. */
export async function writeSecret(path: string, text: string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
  const file = await open(path, flags, 0o600).catch((cause: unknown) => {
    throw new CliError('the secret cannot be written', { where: path, next: 'name a file that does not exist: --out FILE', cause })
  })
  try {
    await file.writeFile(`${text}\n`)
  } finally {
    await file.close()
  }
}

/** Fails before the change if the secret could not be written after it. */
export async function requireNewFile(path: string | undefined): Promise<void> {
  if (path === undefined) return
  const found = await open(path, 'r').catch(() => null)
  await found?.close()
  if (found !== null)
    throw new CliError('the file exists already', { where: path, next: 'name another file: --out FILE', exitCode: exitCodes.usage })
}
