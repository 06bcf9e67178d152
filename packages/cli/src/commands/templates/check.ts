// brokkr templates lint | render: what a template is worth and what it renders to. Nothing is stored or submitted.
import type { RenderedTemplate } from '@brokkr/contract/templates/template.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { requireStack, requireTemplate } from '../../names.ts'
import { print, printError } from '../../output.ts'
import { show } from '../../show.ts'
import { type ParameterOptions, readParameters, readSchema, readText } from './parameters.ts'

interface LintOptions extends ParameterOptions {
  readonly output: Form
  readonly file: string
  readonly schema?: string
}

/** Without parameters only syntax and schema are checked. */
export async function lintTemplate(cli: Cli, _args: readonly string[], options: LintOptions): Promise<void> {
  const hasParameters = options.set.length > 0 || options.parameters !== undefined
  const body = {
    template_content: await readText(options.file),
    parameters_schema: await readSchema(options.schema),
    ...(hasParameters ? { parameters: await readParameters(options) } : {}),
  }
  const client = await cli.client()
  const linted = await client.lintTemplate({ body })
  const checked = hasParameters ? 'syntax, schema and the rendered manifest are valid' : 'syntax and schema are valid'
  show(options.output, {
    value: linted,
    names: [options.file],
    lines: () => [`${options.file}: ${checked}`, ...linted.warnings.map((text) => `warning: ${text}`)],
  })
}

/** The text alone on standard output, so that it can be piped. */
export async function renderTemplate(
  cli: Cli,
  [name = '']: readonly string[],
  options: ParameterOptions & { readonly output: Form; readonly stack: string },
): Promise<void> {
  const parameters = await readParameters(options)
  const client = await cli.client()
  const [template, stack] = await Promise.all([requireTemplate(client, name), requireStack(client, options.stack)])
  const { body } = await client.call('instantiateTemplate', {
    params: { stack_id: stack.id },
    query: { dry_run: true },
    body: { template_id: template.id, parameters },
  })
  const rendered = body as RenderedTemplate
  if (options.output === 'table' || options.output === 'wide') {
    for (const text of rendered.warnings) printError(`warning: ${text}`)
    return print(rendered.yaml_content.trimEnd())
  }
  return show(options.output, { value: rendered, names: [`${template.name}:${template.version}`] })
}
