// The table of all commands. Help, completion and docs/reference/commands.md are derived from it.
import type { CommandSpec } from '../command.ts'
import { accessCommands, agentCommands, auditCommands, generatorCommands } from './agents/table.ts'
import { brokerCommands } from './broker/table.ts'
import { flowCommands } from './flows/table.ts'
import { describeCommand, getCommands, listCommand } from './get/table.ts'
import { pipelineCommands } from './pipelines/table.ts'
import { setupCommands } from './setup/table.ts'
import { stackCommands } from './stacks/table.ts'
import { templateCommands, webhookCommands, workOrderCommands } from './work-orders/table.ts'

export const commands: readonly CommandSpec[] = [
  ...setupCommands,
  ...getCommands,
  ...stackCommands,
  listCommand('stacks'),
  describeCommand('stacks', [{ name: 'stack', completes: 'stack' }], 'shop'),
  ...agentCommands,
  ...generatorCommands,
  ...templateCommands,
  ...workOrderCommands,
  ...webhookCommands,
  ...accessCommands,
  ...auditCommands,
  ...pipelineCommands,
  ...flowCommands,
  ...brokerCommands,
]

/** Words that only group commands. */
export const commandGroups: Readonly<Record<string, string>> = {
  context: 'Saved brokers and PAKs.',
  stacks: 'Stacks: what is delivered to clusters.',
  explain: 'Why something is as it is.',
  agents: 'Agents: one per cluster.',
  generators: 'Generators: who submits stacks.',
  templates: 'Templates: manifests with parameters.',
  'work-orders': 'Work orders: one-off jobs in clusters.',
  webhooks: 'Webhooks: events sent to other systems.',
  access: 'Admin PAKs and invites.',
  audit: 'The audit log.',
  pipeline: 'Pipelines: promotion between environments.',
  flows: 'Data flows: list, steer, validate and preview.',
  'flows dead-letters': 'Messages that a flow could not write.',
  dataflow: 'Programs of the data plane.',
  broker: 'The broker and its database.',
  'broker rotate': 'Replace a PAK in the database.',
  'broker create': 'Create a PAK in the database.',
}
