// Builds the command line from the table of commands: parsing, help with examples and exit codes, suggestions for typing errors.
import { Command, Option } from 'commander'
import { Cli, type Globals } from './cli.ts'
import type { CommandSpec, Exit, OptionSpec } from './command.ts'
import { exitCodes } from './output.ts'

export const exitTexts: Record<Exit | 'done' | 'failed' | 'usage', readonly [number, string]> = {
  done: [0, 'done'],
  failed: [exitCodes.failed, 'failed'],
  usage: [exitCodes.usage, 'wrong usage or configuration'],
  notFound: [exitCodes.notFound, 'not found'],
  notAllowed: [exitCodes.notAllowed, 'not allowed'],
  refused: [exitCodes.refused, 'refused by conflict, hold, guard, window, approval or missing confirmation'],
  unhealthy: [exitCodes.unhealthy, 'something is unhealthy'],
  timedOut: [exitCodes.timedOut, 'timed out'],
  brokerUnreachable: [exitCodes.brokerUnreachable, 'broker unreachable'],
  changes: [exitCodes.changes, 'there are differences'],
  interrupted: [exitCodes.interrupted, 'interrupted'],
}

export function exitsOf(spec: Pick<CommandSpec, 'exits' | 'options'>): readonly (readonly [number, string])[] {
  const waits = (spec.options ?? []).some(({ flags }) => /--(wait|watch)\b/.test(flags))
  const names = new Set<keyof typeof exitTexts>([
    'done',
    'failed',
    'usage',
    ...(spec.exits ?? []),
    ...(waits ? (['interrupted'] as const) : []),
  ])
  return [...names].map((name) => exitTexts[name]).toSorted(([a], [b]) => a - b)
}

export const globalOptions: readonly OptionSpec[] = [
  { flags: '--broker <url>', text: 'address of the broker (default: BROKKR_BROKER_URL, then the current context)' },
  { flags: '--pak-file <file>', text: 'file with the PAK (default: BROKKR_PAK_FILE, then the current context)', completes: 'file' },
]

export function buildProgram(commands: readonly CommandSpec[], groups: Readonly<Record<string, string>>): Command {
  const program = new Command('brokkr')
    .description('One control plane for any number of Kubernetes clusters')
    // Short terms leave room for the sentences in 80 columns.
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .showSuggestionAfterError(true)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : exitCodes.usage))
  for (const option of globalOptions) program.addOption(toOption(option))
  const parents = new Map<string, Command>([['', program]])
  for (const spec of commands) addCommand(program, parents, groups, spec)
  return program
}

function addCommand(program: Command, parents: Map<string, Command>, groups: Readonly<Record<string, string>>, spec: CommandSpec): void {
  const words = spec.path.split(' ')
  const name = words.pop()!
  const parent = requireParent(parents, groups, words)
  const parameters = (spec.args ?? []).map((arg) => {
    const text = arg.isRest === true ? `${arg.name}...` : arg.name
    return arg.isOptional === true ? `[${text}]` : `<${text}>`
  })
  const command = parent.command([name, ...parameters].join(' '), { isDefault: spec.isDefault === true, hidden: spec.isHidden === true })
  command.description(spec.summary).addHelpText('after', () => helpText(spec))
  for (const option of spec.options ?? []) command.addOption(toOption(option))
  parents.set(spec.path, command)
  command.action(async (...given: unknown[]) => {
    const args = given.slice(0, -2).flatMap((arg) => (arg === undefined ? [] : (arg as string | string[])))
    const run = await spec.load()
    await run(new Cli(program.opts<Globals>()), args, given.at(-2))
  })
}

function requireParent(parents: Map<string, Command>, groups: Readonly<Record<string, string>>, words: readonly string[]): Command {
  const path = words.join(' ')
  const known = parents.get(path)
  if (known !== undefined) return known
  const parent = requireParent(parents, groups, words.slice(0, -1))
  const command = parent.command(words.at(-1)!).description(groups[path] ?? '')
  parents.set(path, command)
  return command
}

function toOption(spec: OptionSpec): Option {
  const option = new Option(spec.flags, spec.text)
  if (spec.choices !== undefined) option.choices([...spec.choices])
  if (spec.isRepeated === true) option.argParser((value: string, all: string[] | undefined) => [...(all ?? []), value])
  if (spec.isRepeated === true && spec.isRequired !== true) option.default([], 'none')
  if (spec.default !== undefined) option.default(spec.default)
  if (spec.isRequired === true) option.makeOptionMandatory()
  return option
}

function helpText(spec: CommandSpec): string {
  const exits = exitsOf(spec).map(([code, text]) => `  ${String(code).padStart(3)}  ${text}`)
  const examples = spec.examples.map((example) => `  $ ${/^[A-Z_]+=|^cat |^kustomize /.test(example) ? example : `brokkr ${example}`}`)
  return ['', 'Examples:', ...examples, '', 'Exit codes:', ...exits].join('\n')
}
