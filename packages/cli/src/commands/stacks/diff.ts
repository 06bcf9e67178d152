// brokkr diff and brokkr stacks compare: what differs between two contents of a stack, field by field.
import type { Client } from '@brokkr/client'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { requireStack } from '../../names.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { compareManifests, differenceLines, type ObjectDifference } from './object-diff.ts'
import { readProject } from './project-file.ts'
import { readManifests } from './read-manifests.ts'

interface DiffOptions {
  readonly output: Form
  readonly file: string
  readonly stack?: string
  readonly exitCode?: boolean
}

export async function diff(cli: Cli, _args: readonly string[], options: DiffOptions): Promise<void> {
  const name = options.stack ?? (await readProject()).stack
  if (name === undefined) throw new CliError('no stack is named', { next: '--stack NAME', exitCode: exitCodes.usage })
  const text = await readManifests(options.file)
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const [head] = await client.listDeploymentObjects({ params: { id: stack.id }, query: { limit: 1 } })
  const before = head === undefined || head.is_deletion_marker ? '' : head.yaml_content
  print(options.output, compareManifests(before, text), `${name} ${head?.sequence_id ?? 0} is equal`)
  if (options.exitCode === true && compareManifests(before, text).length > 0) process.exitCode = exitCodes.changes
}

export async function compare(cli: Cli, [name = '', from = '', to = '']: readonly string[], options: { output: Form }): Promise<void> {
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const [before, after] = [await readContent(client, stack, from), await readContent(client, stack, to)]
  print(options.output, compareManifests(before, after), `${name} ${from} and ${to} are equal`)
}

function print(form: Form, differences: readonly ObjectDifference[], equal: string): void {
  show(form, {
    value: differences,
    names: differences.map(({ kind, name }) => `${kind}/${name}`),
    lines: () => (differences.length === 0 ? [equal] : differenceLines(differences)),
  })
}

async function readContent(
  client: Client,
  stack: { id: Parameters<Client['getStack']>[0]['params']['id']; name: string },
  sequence: string,
): Promise<string> {
  const id = await requireObject(client, stack, sequence)
  return (await client.getDeploymentObject({ params: { id } })).yaml_content
}

/** Id of the deployment object with a sequence number. */
export async function requireObject(
  client: Client,
  stack: { id: Parameters<Client['getStack']>[0]['params']['id']; name: string },
  sequence: string,
): Promise<Parameters<Client['getDeploymentObject']>[0]['params']['id']> {
  if (!/^\d{1,10}$/.test(sequence))
    throw new CliError(`${JSON.stringify(sequence)} is not a sequence number`, {
      next: `brokkr stacks history ${stack.name}`,
      exitCode: exitCodes.usage,
    })
  for await (const one of client.items('listDeploymentObjects', { params: { id: stack.id }, query: { content: false } }))
    if (one.sequence_id === Number(sequence)) return one.id
  throw new CliError(`${stack.name} has no deployment object ${sequence}`, {
    next: `brokkr stacks history ${stack.name}`,
    exitCode: exitCodes.notFound,
  })
}
