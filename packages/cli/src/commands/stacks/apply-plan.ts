// brokkr apply --plan ID: submits exactly what was planned. The broker refuses it once content, newest object or targets have moved.
import { createHash } from 'node:crypto'
import type { Client } from '@brokkr/client'
import type { Plan } from '@brokkr/contract/plans/plan.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import { change } from '../../changes.ts'
import type { Form } from '../../command.ts'
import { CliError, exitCodes } from '../../output.ts'
import { readManifests } from './read-manifests.ts'

export interface ApplyPlanOptions {
  readonly output: Form
  readonly dryRun?: boolean
  readonly plan: string
  readonly file?: string
  readonly stack?: string
}
export interface AppliedPlan {
  readonly stack: Stack
  readonly plan: Plan
  readonly object: Awaited<ReturnType<Client['createDeploymentObject']>>
}

/** Null after a dry run. */
export async function applyPlan(client: Client, options: ApplyPlanOptions): Promise<AppliedPlan | null> {
  const plan = await readPlan(client, options.plan)
  const stack = await client.getStack({ params: { id: plan.stack_id } })
  if (options.stack !== undefined && options.stack !== stack.name)
    throw new CliError(`the plan was made for stack ${stack.name}, not ${options.stack}`, {
      next: 'leave out --stack, or name the plan of that stack',
      exitCode: exitCodes.usage,
    })
  const text = await readPlannedText(client, { plan, stack, file: options.file })
  const what = `submit ${Buffer.byteLength(text)} bytes to ${stack.name} as planned, if its newest object and its targets are still those of the plan`
  const submit = () =>
    client.createDeploymentObject({ params: { id: stack.id }, query: { plan_id: plan.id }, body: { yaml_content: text } })
  const object = await change(options, what, submit)
  return object === null ? null : { stack, plan, object }
}

async function readPlan(client: Client, id: string): Promise<Plan> {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id))
    throw new CliError(`${JSON.stringify(id)} is not the id of a plan`, {
      next: 'brokkr plan -f FILE --stack NAME prints the id',
      exitCode: exitCodes.usage,
    })
  const { results: _results, ...plan } = await client.getPlan({ params: { id } })
  return plan
}

/** The broker keeps the planned content sealed and does not return it: it comes from the file, or from an earlier deployment object. */
async function readPlannedText(
  client: Client,
  { plan, stack, file }: { plan: Plan; stack: Stack; file: string | undefined },
): Promise<string> {
  if (plan.is_deletion_marker)
    throw new CliError(`the plan is one of the deletion of ${stack.name}`, {
      next: `brokkr stacks delete ${stack.name}`,
      exitCode: exitCodes.refused,
    })
  if (file !== undefined) {
    const text = await readManifests(file)
    if (createHash('sha256').update(text).digest('hex') === plan.content_checksum) return text
    throw new CliError('the manifests are not those that were planned', {
      where: file,
      next: `restore them, or make a new plan: brokkr plan -f ${file} --stack ${stack.name}`,
      exitCode: exitCodes.refused,
    })
  }
  for await (const one of client.items('listDeploymentObjects', { params: { id: stack.id }, query: { content: false } }))
    if (one.yaml_checksum === plan.content_checksum && !one.is_deletion_marker)
      return (await client.getDeploymentObject({ params: { id: one.id } })).yaml_content
  throw new CliError('the manifests of the plan are missing: the broker does not return planned content', {
    next: `brokkr apply --plan ${plan.id} -f FILE, with the same manifests as brokkr plan`,
    exitCode: exitCodes.usage,
  })
}
