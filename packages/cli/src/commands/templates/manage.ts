// brokkr templates publish | versions | apply | delete.
import { change, confirm } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions, Form } from '../../command.ts'
import { listTemplateVersions, requireStack, requireTemplate } from '../../names.ts'
import { age } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack } from '../../wait.ts'
import { type ParameterOptions, readParameters, readSchema, readText } from './parameters.ts'

interface PublishOptions extends ChangeOptions {
  readonly file: string
  readonly schema?: string
  readonly description?: string
}

/** The broker checks the syntax and the schema; an existing name gets its next version. */
export async function publishTemplate(cli: Cli, [name = '']: readonly string[], options: PublishOptions): Promise<void> {
  const template_content = await readText(options.file)
  const parameters_schema = await readSchema(options.schema)
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

interface ApplyOptions extends ChangeOptions, ParameterOptions {
  readonly stack: string
}

/** Renders the template with parameters and submits the result as the next content of a stack. */
export async function applyTemplate(cli: Cli, [name = '']: readonly string[], options: ApplyOptions): Promise<void> {
  const parameters = await readParameters(options)
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
