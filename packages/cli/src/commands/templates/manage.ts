// brokkr templates publish | versions | apply | delete.
import { readFile, stat } from 'node:fs/promises'
import { change, confirm } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { listTemplateVersions, requireStack, requireTemplate } from '../../names.ts'
import { age, CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack } from '../../wait.ts'

const fileBytesMax = 1024 * 1024

interface PublishOptions extends ChangeOptions {
  readonly file: string
  readonly schema?: string
  readonly description?: string
}

/** The broker checks the syntax and the schema; an existing name gets its next version. */
export async function publishTemplate(cli: Cli, [name = '']: readonly string[], options: PublishOptions): Promise<void> {
  const template_content = await readText(options.file)
  const parameters_schema = options.schema === undefined ? '{"type":"object"}' : await readText(options.schema)
  const client = await cli.client()
  const body = {
    name,
    template_content,
    parameters_schema,
    ...(options.description === undefined ? {} : { description: options.description }),
  }
  const done = await change(options, `publish template ${name}`, () => client.createTemplate({ body }))
  if (done !== null)
    show(options.output, { value: done, names: [`${name}:${done.version}`], lines: () => [`template ${name}:${done.version} published`] })
}

export async function templateVersions(cli: Cli, [name = '']: readonly string[], options: { output: Form }): Promise<void> {
  const client = await cli.client()
  const found = await requireTemplate(client, name)
  const versions = await listTemplateVersions(client, found.name)
  show(options.output, {
    value: versions,
    names: versions.map(({ version }) => `${found.name}:${version}`),
    table: () => ({
      head: ['VERSION', 'AGE', 'CHECKSUM', 'DESCRIPTION'],
      rows: versions.map((one) => [String(one.version), age(one.created_at), one.checksum.slice(0, 12), one.description ?? '-']),
    }),
  })
}

interface ApplyOptions extends ChangeOptions {
  readonly stack: string
  readonly set: readonly string[]
  readonly parameters?: string
}

/** Renders the template with parameters and submits the result as the next content of a stack. */
export async function applyTemplate(cli: Cli, [name = '']: readonly string[], options: ApplyOptions): Promise<void> {
  const parameters = {
    ...(options.parameters === undefined ? {} : parseParameters(await readText(options.parameters), options.parameters)),
    ...Object.fromEntries(options.set.map(parseSetting)),
  }
  const client = await cli.client()
  const [template, stack] = await Promise.all([requireTemplate(client, name), requireStack(client, options.stack)])
  const label = `${template.name}:${template.version}`
  const call = { params: { stack_id: stack.id }, body: { template_id: template.id, parameters } }
  const done = await change(options, `render template ${label} and submit it to stack ${stack.name}`, () =>
    client.instantiateTemplate(call),
  )
  if (done === null) return
  show(options.output, { value: done, names: [stack.name], lines: () => [`${stack.name} ${done.sequence_id} from template ${label}`] })
  if (options.wait === true)
    await waitForStack(cli, client, { id: stack.id, name: stack.name, sequence: done.sequence_id, timeout: options.timeout ?? '5m' })
}

export async function deleteTemplate(cli: Cli, [name = '']: readonly string[], options: ChangeOptions): Promise<void> {
  const client = await cli.client()
  const template = await requireTemplate(client, name)
  const label = `${template.name}:${template.version}`
  await confirm(options, label, [`deletes template ${label}; what was rendered from it stays`])
  const done = await change(options, `delete template ${label}`, async () => {
    await client.deleteTemplate({ params: { id: template.id } })
    return { id: template.id, name: label, deleted: true }
  })
  if (done !== null) show(options.output, { value: done, names: [label], lines: () => [`template ${label} deleted`] })
}

/** `replicas=3` is a number, `name="3"` and `name=web` are texts. */
export function parseSetting(text: string): [string, unknown] {
  const at = text.indexOf('=')
  if (at < 1) throw new CliError(`--set ${text} has no value`, { next: '--set NAME=VALUE', exitCode: exitCodes.usage })
  const value = text.slice(at + 1)
  try {
    return [text.slice(0, at), JSON.parse(value) as unknown]
  } catch {
    return [text.slice(0, at), value]
  }
}

function parseParameters(text: string, file: string): Record<string, unknown> {
  try {
    const value = JSON.parse(text) as unknown
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch {
    // Reported below.
  }
  throw new CliError('the parameters are not a JSON object', {
    where: file,
    next: 'give a file such as {"replicas": 3}',
    exitCode: exitCodes.usage,
  })
}

async function readText(file: string): Promise<string> {
  const fail = (cause: unknown): never => {
    throw new CliError('the file cannot be read', {
      where: file,
      next: 'name a text file of at most 1 MiB',
      exitCode: exitCodes.usage,
      cause,
    })
  }
  const { size } = await stat(file).catch(fail)
  if (size > fileBytesMax) fail(new Error(`it has ${size} bytes`))
  return readFile(file, 'utf8').catch(fail)
}
