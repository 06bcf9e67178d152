// brokkr get NOUN: reads page by page and prints each page at once. With --watch, prints rows that changed.
import type { Client } from '@brokkr/client'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { CliError, escapeControls, exitCodes, print } from '../../output.ts'
import { repeatOnChange, scopesOf } from '../../screens.ts'
import { toYaml } from '../../show.ts'
import { formatTable, terminalWidth } from '../../table.ts'
import type { Filter, Resource } from './resource.ts'
import { requireResource } from './resources.ts'

export interface GetOptions {
  readonly output: Form
  readonly label: readonly string[]
  readonly field: readonly string[]
  readonly watch?: boolean
}

export async function get(cli: Cli, [noun = '']: readonly string[], options: GetOptions): Promise<void> {
  const resource = await requireResource(noun)
  const filter = readFilter(resource, noun, options)
  const client = await cli.client()
  if (options.watch === true) return watchList(cli, client, resource, filter, options.output)
  return printList(options.output, resource, resource.pages(client, filter))
}

/** `brokkr agents list` and the like. */
export const listNoun =
  (noun: string) =>
  (cli: Cli, _args: readonly string[], options: GetOptions): Promise<void> =>
    get(cli, [noun], options)

function readFilter(resource: Resource, noun: string, options: GetOptions): Filter {
  if (options.label.length > 0 && !resource.hasLabels)
    throw new CliError(`${noun} cannot be filtered by label`, { next: `brokkr get ${noun}`, exitCode: exitCodes.usage })
  const fields = options.field.map((text) => {
    const [name = '', ...value] = text.split('=')
    if (value.length > 0 && resource.fields.includes(name)) return [name, value.join('=')]
    const known = resource.fields.map((field) => `--field ${field}=VALUE`).join(', ')
    throw new CliError(`--field ${text} is not a filter of ${noun}`, {
      next: known === '' ? `brokkr get ${noun}` : known,
      exitCode: exitCodes.usage,
    })
  })
  return { labels: options.label, fields: Object.fromEntries(fields) as Record<string, string> }
}

async function printList(form: Form, resource: Resource, pages: AsyncIterable<readonly unknown[]>): Promise<void> {
  let isFirst = true
  for await (const page of pages) {
    if (form === 'json') printItems(page, isFirst)
    else if (form === 'yaml') {
      if (page.length > 0) process.stdout.write(toYaml(page))
      else if (isFirst) print('[]')
    } else if (form === 'name') for (const item of page) print(resource.nameOf(item))
    else if (page.length > 0 || isFirst) print(formatRows(resource, page, form, isFirst))
    isFirst = false
  }
  if (form === 'json') print(isFirst ? '[]' : '\n]')
}

/** A JSON array that is written while the pages arrive. */
function printItems(items: readonly unknown[], isFirst: boolean): void {
  const texts = items.map((item) => escapeControls(JSON.stringify(item, null, 2)).replaceAll('\n', '\n  '))
  process.stdout.write(`${isFirst ? '[' : ''}${texts.map((text, at) => `${isFirst && at === 0 ? '' : ','}\n  ${text}`).join('')}`)
}

function formatRows(resource: Resource, items: readonly unknown[], form: Form, isFirst: boolean): string {
  const isWide = form === 'wide'
  const head = [...resource.head, ...(isWide ? (resource.wideHead ?? []) : [])]
  const rows = items.map((item) => [...resource.row(item), ...(isWide ? (resource.wideRow?.(item) ?? []) : [])])
  return formatTable({ head, rows }, isWide ? Number.POSITIVE_INFINITY : terminalWidth(), isFirst)
}

async function watchList(cli: Cli, client: Client, resource: Resource, filter: Filter, form: Form): Promise<void> {
  let known = new Map<string, string>()
  let isFirst = true
  await repeatOnChange(cli, client, await scopesOf(client, resource.kinds), async () => {
    const now = new Map<string, string>()
    const changed: unknown[] = []
    for await (const page of resource.pages(client, filter))
      for (const item of page) {
        const text = JSON.stringify(item)
        const key = (item as { id: string }).id
        now.set(key, text)
        if (known.get(key) !== text) changed.push(item)
      }
    known = now
    if (form === 'json') for (const item of changed) print(JSON.stringify(item))
    else if (form === 'name') for (const item of changed) print(resource.nameOf(item))
    else if (form === 'yaml') for (const item of changed) process.stdout.write(`---\n${toYaml(item)}`)
    else if (changed.length > 0 || isFirst) print(formatRows(resource, changed, form, isFirst))
    isFirst = false
  })
}
