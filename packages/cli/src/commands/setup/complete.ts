// Completion: the shell asks `brokkr __complete -- WORDS…` for what can follow. Commands and options come from the table, names from
// the broker, within a second or not at all.
import { type Client, createClient } from '@brokkr/client'
import type { Cli } from '../../cli.ts'
import type { CommandSpec, Completes, OptionSpec } from '../../command.ts'
import { chooseBroker, readContexts } from '../../context.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { globalOptions } from '../../program.ts'
import { resources } from '../get/resources.ts'

const namesMs = 1000
const namesMax = 500

/** What can stand at the place of the last word. */
export interface Place {
  readonly words: readonly string[]
  readonly completes: Completes | null
}

export function findPlace(commands: readonly CommandSpec[], given: readonly string[]): Place {
  const last = given.at(-1) ?? ''
  const before = given.slice(0, -1)
  const visible = commands.filter(({ isHidden }) => isHidden !== true)
  const plain = withoutOptions(before, [...globalOptions, ...visible.flatMap(({ options = [] }) => options)])
  const command = visible.find(
    ({ path }) =>
      isPrefix(path.split(' '), plain) &&
      !visible.some((other) => other.path !== path && other.path.startsWith(`${path} `) && isPrefix(other.path.split(' '), plain)),
  )
  const options = [...globalOptions, ...(command?.options ?? [])]
  const open = options.find((option) => takesValue(option) && flagNames(option).includes(before.at(-1) ?? ''))
  if (open !== undefined) return { words: open.choices ?? [], completes: open.completes ?? null }
  if (last.startsWith('-')) return { words: options.flatMap(flagNames).filter((name) => name.startsWith('--')), completes: null }
  const subcommands = visible.flatMap(({ path }) => {
    const words = path.split(' ')
    return words.length > plain.length && isPrefix(plain, words) ? [words[plain.length]!] : []
  })
  const rest = command === undefined ? [] : plain.slice(command.path.split(' ').length)
  const args = command?.args ?? []
  const arg = args[rest.length] ?? (args.at(-1)?.isRest === true ? args.at(-1) : undefined)
  return { words: [...new Set(subcommands)], completes: describedNoun(command, rest) ?? arg?.completes ?? null }
}

/** The second word of `describe stack …` decides which names follow. */
function describedNoun(command: CommandSpec | undefined, rest: readonly string[]): Completes | null {
  if (command?.path !== 'describe' || rest.length !== 1) return null
  const noun = rest[0]!.replace(/s$/, '')
  return (['stack', 'agent', 'generator', 'template', 'webhook', 'work-order'] as const).find((one) => one === noun) ?? null
}

const isPrefix = (start: readonly string[], words: readonly string[]): boolean => start.every((word, at) => words[at] === word)
const flagNames = ({ flags }: OptionSpec): string[] => [...flags.matchAll(/--?[a-z][\w-]*/gi)].map(([name]) => name)
const takesValue = ({ flags }: OptionSpec): boolean => flags.includes('<')

function withoutOptions(words: readonly string[], options: readonly OptionSpec[]): string[] {
  const withValue = new Set(options.filter(takesValue).flatMap(flagNames))
  return words.filter((word, at) => !word.startsWith('-') && !withValue.has(words[at - 1] ?? ''))
}

export async function complete(cli: Cli, given: readonly string[]): Promise<void> {
  const { commands } = await import('../index.ts')
  const place = findPlace(commands, given)
  const last = given.at(-1) ?? ''
  const names = place.completes === null ? [] : await listNames(cli, place.completes, last).catch(() => [])
  for (const word of [...place.words, ...names]) if (word.startsWith(last)) print(word)
}

async function listNames(cli: Cli, completes: Completes, last: string): Promise<string[]> {
  if (completes === 'file') return []
  if (completes === 'noun') return Object.keys(resources)
  if (completes === 'shell') return Object.keys(scripts)
  if (completes === 'context') return Object.keys((await readContexts(cli.env)).contexts)
  const { broker, pak } = await chooseBroker(cli.globals, cli.env)
  const client = createClient({ baseUrl: broker, pak: () => pak, userAgent: 'brokkr-cli', retries: 0, timeoutMs: namesMs })
  if (completes === 'stack@agent' && last.includes('@')) {
    const stack = last.slice(0, last.lastIndexOf('@'))
    return (await take(client, 'agent')).map((agent) => `${stack}@${agent}`)
  }
  return take(client, completes === 'stack@agent' ? 'stack' : completes)
}

async function take(client: Client, what: Completes): Promise<string[]> {
  const page = { query: { limit: namesMax } }
  if (what === 'stack') return (await client.listStacks(page)).map(({ name }) => name)
  if (what === 'agent') return (await client.listAgents(page)).map(({ name }) => name)
  if (what === 'generator') return (await client.listGenerators(page)).map(({ name }) => name)
  if (what === 'template') return [...new Set((await client.listTemplates(page)).map(({ name }) => name))]
  if (what === 'webhook') return (await client.listWebhooks(page)).map(({ name }) => name)
  if (what === 'work-order') return (await client.listWorkOrders(page)).map(({ id }) => id)
  return what === 'pak' ? (await client.listAdminPaks({})).map(({ name }) => name) : []
}

const scripts: Readonly<Record<string, string>> = {
  bash: `_brokkr() {
  local IFS=$'\\n'
  COMPREPLY=($(compgen -W "$(brokkr __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _brokkr brokkr`,
  zsh: `#compdef brokkr
_brokkr() {
  local -a candidates
  candidates=("\${(@f)$(brokkr __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if (( \${#candidates} > 0 )) && [[ -n "$candidates[1]" ]]; then compadd -a candidates; else _files; fi
}
compdef _brokkr brokkr`,
  fish: `complete -c brokkr -f -a '(brokkr __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'`,
}

export function completion(_cli: Cli, [shell = '']: readonly string[]): void {
  const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined
  if (script === undefined)
    throw new CliError(`no completion for ${JSON.stringify(shell)}`, {
      next: `brokkr completion ${Object.keys(scripts).join('|')}`,
      exitCode: exitCodes.usage,
    })
  print(script)
}
