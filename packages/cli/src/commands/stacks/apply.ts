// brokkr apply -f FILE --stack NAME: submits manifests as a deployment object; equal content changes nothing. With --plan, only what was
// planned.
import { createHash } from 'node:crypto'
import type { Client } from '@brokkr/client'
import type { DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import type { Drift } from '@brokkr/contract/stacks/stack.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireGenerator } from '../../names.ts'
import { CliError, exitCodes, print, printError } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack } from '../../wait.ts'
import { applyPlan } from './apply-plan.ts'
import { readProject } from './project-file.ts'
import { readManifests } from './read-manifests.ts'

export interface ApplyOptions extends ChangeOptions {
  readonly file?: string
  readonly plan?: string
  readonly stack?: string
  readonly generator?: string
  readonly label: readonly string[]
  readonly timeout: string
}
interface Wanted {
  readonly stack: string
  readonly generator: string
  readonly labels: readonly string[]
  readonly drift: Drift | undefined
}

export async function apply(cli: Cli, _args: readonly string[], options: ApplyOptions): Promise<void> {
  parseDuration(options.timeout, '--timeout')
  // From here on Ctrl-C says what was done.
  if (options.wait === true) cli.interruption('stopped; what was submitted goes on')
  if (options.plan !== undefined) return submitPlanned(cli, { ...options, plan: options.plan })
  const wanted = await readWanted(options)
  if (options.file === undefined)
    throw new CliError('no manifests are named', { next: '-f FILE, -f FOLDER, or -f - for standard input', exitCode: exitCodes.usage })
  const text = await readManifests(options.file)
  const client = await cli.client()
  if (options.dryRun === true) return showDryRun(client, wanted, text, options)
  const id = (await findStack(client, wanted.stack)) ?? (await createStack(client, wanted))
  const params = { id }
  const [head] = await client.listDeploymentObjects({ params, query: { content: false, limit: 1 } })
  const isSame = head !== undefined && !head.is_deletion_marker && head.yaml_checksum === createHash('sha256').update(text).digest('hex')
  const effect = isSame ? null : await dryRun(client, id, text)
  // The broker rejects it if another client submitted after the comparison.
  const query = { expected_sequence_id: head?.sequence_id ?? 0 }
  const object = isSame ? head : await client.createDeploymentObject({ params, query, body: { yaml_content: text } })
  const line = isSame
    ? `${wanted.stack} ${object.sequence_id} unchanged`
    : `${wanted.stack} ${head?.sequence_id ?? 0} → ${object.sequence_id}   ${countsText(effect)}`
  show(options.output, { value: object, names: [wanted.stack], lines: () => [line] })
  await finish(cli, client, { stack: wanted.stack, object, options })
}

async function submitPlanned(cli: Cli, options: ApplyOptions & { readonly plan: string }): Promise<void> {
  const client = await cli.client()
  const applied = await applyPlan(client, options)
  if (applied === null) return
  const { stack, plan, object } = applied
  const line = `${stack.name} ${plan.base_sequence_id ?? 0} → ${object.sequence_id}   as planned`
  show(options.output, { value: object, names: [stack.name], lines: () => [line] })
  await finish(cli, client, { stack: stack.name, object, options })
}

interface Submitted {
  readonly stack: string
  readonly object: { readonly stack_id: StackId; readonly sequence_id: number; readonly warnings?: unknown }
  readonly options: ApplyOptions
}

/** Shows warnings and, if wanted, waits for the agents. */
async function finish(cli: Cli, client: Client, { stack, object, options }: Submitted): Promise<void> {
  for (const warning of (object.warnings as string[] | undefined) ?? []) printError(`warning: ${warning}`)
  if (options.wait !== true) return
  const { stack_id: id, sequence_id: sequence } = object
  const agents = await waitForStack(cli, client, { id, name: stack, sequence, timeout: options.timeout })
  const names = agents.length > 10 ? `${agents.length} agents` : agents.map((agent) => agent.agent_name).join(', ')
  if (options.output === 'table' || options.output === 'wide') print(`${stack} ${sequence} applied by ${names}`)
}

async function readWanted(options: ApplyOptions): Promise<Wanted> {
  const project = await readProject()
  const stack = options.stack ?? project.stack
  if (stack === undefined)
    throw new CliError('no stack is named', { next: '--stack NAME, or a line "stack: NAME" in brokkr.yaml', exitCode: exitCodes.usage })
  return {
    stack,
    generator: options.generator ?? project.generator ?? 'admin-generator',
    labels: options.label.length > 0 ? options.label : (project.labels ?? []),
    drift: project.drift,
  }
}

export const findStack = async (client: Client, name: string): Promise<StackId | null> =>
  (await client.listStacks({ query: { name } }))[0]?.id ?? null

/** A generator creates stacks of its own; an admin names the generator. */
async function createStack(client: Client, { stack, generator, labels, drift }: Wanted): Promise<StackId> {
  const owner = await client.verifyPak({})
  const generator_id = owner.generator ?? (await requireGenerator(client, generator)).id
  const body = { name: stack, generator_id, labels: [...labels], ...(drift === undefined ? {} : { drift }) }
  return (await client.createStack({ body })).id
}

export async function dryRun(client: Client, id: StackId, text: string): Promise<DryRun> {
  const { body } = await client.call('createDeploymentObject', { params: { id }, query: { dry_run: true }, body: { yaml_content: text } })
  return body as DryRun
}

async function showDryRun(client: Client, wanted: Wanted, text: string, options: ApplyOptions): Promise<void> {
  const id = await findStack(client, wanted.stack)
  if (id === null) {
    const would = `create stack ${wanted.stack} of generator ${wanted.generator} and submit ${Buffer.byteLength(text)} bytes`
    return show(options.output, { value: { dry_run: true, would }, names: [], lines: () => [`would ${would}`] })
  }
  const effect = await dryRun(client, id, text)
  show(options.output, {
    value: effect,
    names: effect.objects.map(({ kind, name }) => `${kind}/${name}`),
    lines: () => [
      `would submit to ${wanted.stack}   ${countsText(effect)}   ${effect.agents.length} agents`,
      ...effect.objects
        .filter(({ change }) => change !== 'unchanged')
        .map((one) => `  ${mark[one.change]} ${one.kind} ${[one.namespace, one.name].filter(Boolean).join('/')}`),
      ...effect.warnings.map((warning) => `  warning: ${warning}`),
    ],
  })
}

const mark = { added: '+', changed: '~', removed: '-', unchanged: ' ' } as const

function countsText(effect: DryRun | null): string {
  const count = (change: string) => effect?.objects.filter((one) => one.change === change).length ?? 0
  return `${count('changed')} changed   ${count('added')} new   ${count('removed')} gone`
}
