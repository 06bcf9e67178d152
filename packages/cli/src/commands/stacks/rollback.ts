// brokkr rollback STACK: submits an earlier content again as the newest deployment object.
import type { Client } from '@brokkr/client'
import { change } from '../../changes.ts'
import type { Cli } from '../../cli.ts'
import type { ChangeOptions } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireStack } from '../../names.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { show } from '../../show.ts'
import { waitForStack } from '../../wait.ts'
import { requireObject } from './diff.ts'

interface RollbackOptions extends ChangeOptions {
  readonly to?: string
  readonly lastGood?: boolean
  /** False by --no-hold. */
  readonly hold: boolean
  readonly reason?: string
  readonly timeout: string
}
type Listed = Awaited<ReturnType<Client['listDeploymentObjects']>>[number]

const historyMax = 200

export async function rollback(cli: Cli, [name = '']: readonly string[], options: RollbackOptions): Promise<void> {
  parseDuration(options.timeout, '--timeout')
  if (options.to !== undefined && options.lastGood === true)
    throw new CliError('--to and --last-good exclude each other', { next: 'give one of them', exitCode: exitCodes.usage })
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const params = { id: stack.id }
  const objects = await client.listDeploymentObjects({ params, query: { content: false, limit: historyMax } })
  const target = options.to === undefined ? await findLastGood(client, stack, objects) : await requireObject(client, stack, options.to)
  const sequence = objects.find(({ id }) => id === target)?.sequence_id ?? Number(options.to)
  const head = objects[0]?.sequence_id ?? 0
  const body = {
    deployment_object_id: target,
    expected_sequence_id: head,
    reason: options.reason ?? `rollback to ${sequence} by brokkr rollback`,
    hold: options.hold,
  }
  const object = await change(
    options,
    `submit the content of ${name} ${sequence} again, after ${head}${options.hold ? ', and hold it' : ''}`,
    () => client.rollbackStack({ params, body }),
  )
  if (object === null) return
  const held = options.hold ? `, held until: brokkr release ${name}` : ''
  show(options.output, { value: object, names: [name], lines: () => [`${name} ${object.sequence_id} = content of ${sequence}${held}`] })
  if (options.wait !== true) return
  const agents = await waitForStack(cli, client, { id: stack.id, name, sequence: object.sequence_id, timeout: options.timeout })
  if (options.output === 'table') print(`${name} ${object.sequence_id} applied by ${agents.length} agents`)
}

/** The newest earlier content that agents reported healthy and that differs from the present one. */
async function findLastGood(
  client: Client,
  stack: { id: Listed['stack_id']; name: string },
  objects: readonly Listed[],
): Promise<Listed['id']> {
  const [head, ...earlier] = objects
  const candidates = earlier.filter((one) => !one.is_deletion_marker && one.yaml_checksum !== head?.yaml_checksum)
  for (const one of candidates) {
    const { health_records, overall_status } = await client.getDeploymentHealth({ params: { id: one.id } })
    if (health_records.length > 0 && overall_status === 'healthy') return one.id
  }
  throw new CliError(`no earlier content of ${stack.name} is known to have been healthy`, {
    where: `${candidates.length} earlier contents`,
    next: `choose one of brokkr stacks history ${stack.name}: brokkr rollback ${stack.name} --to SEQUENCE`,
    exitCode: exitCodes.refused,
  })
}
