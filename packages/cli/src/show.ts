// Prints the result of a command in the form that the user chose. JSON and YAML are the schema of the API.
import { yamlText } from '@brokkr/contract/manifest/yaml-text.ts'
import type { Form } from './command.ts'
import { print } from './output.ts'
import { formatTable, type Table, terminalWidth } from './table.ts'

export interface View {
  /** As the API has it. */
  readonly value: unknown
  /** For `-o name`: one name per line. */
  readonly names: readonly string[]
  readonly table?: () => Table
  /** With more columns. */
  readonly wide?: () => Table
  /** Instead of a table. */
  readonly lines?: () => readonly string[]
}

export function show(form: Form, view: View): void {
  if (form === 'json') return print(JSON.stringify(view.value, null, 2))
  if (form === 'yaml') return process.stdout.write(toYaml(view.value)) ? undefined : undefined
  if (form === 'name') return view.names.forEach((name) => print(name))
  if (view.lines !== undefined) return view.lines().forEach((line) => print(line))
  const isWide = form === 'wide'
  const table = (isWide ? (view.wide ?? view.table) : view.table)?.()
  if (table !== undefined) print(formatTable(table, isWide ? Number.POSITIVE_INFINITY : terminalWidth()))
}

/** One line per value, for changes that follow each other. */
export const showLine = (form: Form, view: View): void => (form === 'json' ? print(JSON.stringify(view.value)) : show(form, view))

export const toYaml = (value: unknown): string => yamlText(JSON.parse(JSON.stringify(value ?? null)) as Parameters<typeof yamlText>[0])
