// Generates docs/reference/commands.md from the table of commands: `npm run generate`. The test beside it fails if the page differs.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { CommandSpec, OptionSpec } from '@brokkr/cli/command.ts'
import { commands } from '@brokkr/cli/commands/index.ts'
import { exitsOf, exitTexts, globalOptions } from '@brokkr/cli/program.ts'

export const commandsPage = join(import.meta.dirname, '..', 'docs', 'reference', 'commands.md')

const head = `# Commands

Generated from the table of commands by \`npm run generate\`; do not edit. \`brokkr COMMAND --help\` shows the same.

Data goes to standard output, messages to standard error. \`-o json\` and \`-o yaml\` print the schema of the API, \`-o name\` names only, \`-o wide\`
more columns. Colors and progress are shown only on a terminal, and no colors with \`NO_COLOR\`. Every change carries an idempotency key, so an
attempt that failed can be repeated.
`

export function buildCommandsPage(): string {
  const exits = Object.values(exitTexts).map(([code, text]) => `| ${code} | ${text} |`)
  return [
    head,
    '## Options of all commands\n',
    ...optionTable(globalOptions),
    '## Exit codes\n',
    '| Code | Meaning |',
    '|---|---|',
    ...exits,
    '',
    ...commands.filter(({ isHidden }) => isHidden !== true).flatMap(buildSection),
  ].join('\n')
}

function buildSection(spec: CommandSpec): string[] {
  const args = (spec.args ?? []).map(
    ({ name, isOptional, isRest }) =>
      `${isOptional === true ? '[' : '<'}${name}${isRest === true ? '...' : ''}${isOptional === true ? ']' : '>'}`,
  )
  return [
    `## brokkr ${[spec.path, ...args].join(' ').replaceAll('<', '\\<')}\n`,
    `${spec.summary}\n`,
    ...((spec.options ?? []).length === 0 ? [] : optionTable(spec.options!)),
    '```',
    ...spec.examples.map((example) => (/^[A-Z_]+=|^cat |^kustomize /.test(example) ? example : `brokkr ${example}`)),
    '```\n',
    `Exit codes: ${exitsOf(spec)
      .map(([code]) => code)
      .join(', ')}.\n`,
  ]
}

function optionTable(options: readonly OptionSpec[]): string[] {
  const rows = options.map((option) => {
    const notes = [
      ...(option.isRequired === true ? ['required'] : []),
      ...(option.choices === undefined ? [] : [option.choices.join(', ')]),
      ...(option.default === undefined ? [] : [`default: \`${option.default}\``]),
    ]
    return `| \`${option.flags}\` | ${[option.text, ...notes].join('; ').replaceAll('|', '\\|')} |`
  })
  return ['| Option | Meaning |', '|---|---|', ...rows, '']
}

if (import.meta.main) {
  mkdirSync(dirname(commandsPage), { recursive: true })
  writeFileSync(commandsPage, buildCommandsPage())
}
