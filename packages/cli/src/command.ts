// A command as data: the help, the completion and the reference page are derived from it, and its code is loaded on use.
import type { Cli } from './cli.ts'

/** Exit codes beyond `done`, `failed` and `usage`, which every command has. */
export type Exit = 'notFound' | 'notAllowed' | 'refused' | 'unhealthy' | 'timedOut' | 'brokerUnreachable' | 'changes' | 'interrupted'

/** What a name stands for, so that the shell can complete it. */
export type Completes =
  | 'stack'
  | 'agent'
  | 'stack@agent'
  | 'generator'
  | 'template'
  | 'webhook'
  | 'work-order'
  | 'pak'
  | 'context'
  | 'noun'
  | 'shell'
  | 'file'

export interface ArgumentSpec {
  readonly name: string
  readonly isOptional?: true
  /** Takes all further words. */
  readonly isRest?: true
  readonly completes?: Completes
}
export interface OptionSpec {
  /** As `-o, --output <form>`. */
  readonly flags: string
  readonly text: string
  readonly default?: string
  readonly choices?: readonly string[]
  readonly isRequired?: true
  /** May be given several times. */
  readonly isRepeated?: true
  readonly completes?: Completes
}

// oxlint-disable-next-line typescript/no-explicit-any -- each command declares the options that its table entry defines
export type Run = (cli: Cli, args: readonly string[], options: any) => Promise<void> | void

export interface CommandSpec {
  /** Words after `brokkr`, as `stacks create`. */
  readonly path: string
  /** One sentence. */
  readonly summary: string
  readonly args?: readonly ArgumentSpec[]
  readonly options?: readonly OptionSpec[]
  /** Without the word `brokkr`. */
  readonly examples: readonly [string, string, string]
  readonly exits?: readonly Exit[]
  /** Runs when only the parent is given. */
  readonly isDefault?: true
  readonly isHidden?: true
  readonly load: () => Promise<Run>
}

export const broker: readonly Exit[] = ['notAllowed', 'brokerUnreachable']
export const named: readonly Exit[] = ['notFound', ...broker]
export const changing: readonly Exit[] = ['notFound', 'refused', ...broker]

const forms = ['table', 'json', 'yaml', 'wide', 'name'] as const
export type Form = (typeof forms)[number]

export const outputOption: OptionSpec = { flags: '-o, --output <form>', text: 'form of the output', default: 'table', choices: forms }
export const watchOption: OptionSpec = { flags: '-w, --watch', text: 'print changes as they happen, until Ctrl-C' }
export const dryRunOption: OptionSpec = { flags: '--dry-run', text: 'say what would be done, and change nothing' }
export const yesOption: OptionSpec = { flags: '-y, --yes', text: 'do not ask for confirmation' }
export const waitOptions: readonly OptionSpec[] = [
  { flags: '--wait', text: 'wait for the effect; Ctrl-C stops waiting, not the work' },
  { flags: '--timeout <time>', text: 'how long to wait: seconds, or with a unit such as 90s, 5m, 1h', default: '5m' },
]
export const outOption: OptionSpec = {
  flags: '--out <file>',
  text: 'write the secret to a new file that only you can read',
  completes: 'file',
}
export const labelOption: OptionSpec = { flags: '-l, --label <label>', text: 'label; may be repeated', isRepeated: true }

/** Options of a change, as a command receives them. */
export interface ChangeOptions {
  readonly output: Form
  readonly dryRun?: boolean
  readonly yes?: boolean
  readonly wait?: boolean
  readonly timeout?: string
}
