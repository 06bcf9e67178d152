// brokkr flows dead-letters list | show: reads the place of a flow's errors sink with the caller's own permissions; marks nothing.
import { readDeadLetters } from '@brokkr/dataflow/commands.ts'
import { type Kube, textAt } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { readCliEnvironment } from '../../config.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { formatTable } from '../../table.ts'
import { findFlow, requestMs, withCluster } from './cluster-flows.ts'
import type { DeadLetterFlags } from './flags.ts'

const countMax = 1_000
const readMs = 60_000

type Letters = Awaited<ReturnType<typeof readDeadLetters>>

async function read(globals: Globals, name: string, options: DeadLetterFlags): Promise<Letters> {
  const count = Number(options.count)
  if (!Number.isInteger(count) || count < 1 || count > countMax)
    throw new CliError(`--count: "${options.count}" is not a number from 1 to ${countMax}`, { exitCode: exitCodes.usage })
  return withCluster(globals, options, async (kube) => {
    const flow = await findFlow(kube, name, options)
    return readDeadLetters(flow, {
      count,
      secret: (namespace, secret, key) => readSecret(kube, { namespace: namespace ?? flow.metadata.namespace ?? '', name: secret, key }),
      allowLoopback: options.allowLoopback === true || readCliEnvironment(process.env).PROCESSOR_ALLOW_LOOPBACK === true,
      signal: AbortSignal.timeout(readMs),
    })
  })
}

async function readSecret(kube: Kube, at: { namespace: string; name: string; key: string }): Promise<string> {
  const { namespace, name, key } = at
  const secret = await kube.get({ apiVersion: 'v1', kind: 'Secret', namespace, name }, { signal: AbortSignal.timeout(requestMs) })
  const value = textAt(secret, 'data', key)
  if (value === undefined) throw new CliError(`secret ${namespace}/${name} has no key ${key}`, { exitCode: exitCodes.unhealthy })
  return Buffer.from(value, 'base64').toString('utf8')
}

export async function listDeadLetters(globals: Globals, name: string, options: DeadLetterFlags): Promise<void> {
  const letters = await read(globals, name, options)
  if (options.output === 'json') return print(JSON.stringify(letters, null, 2))
  if (letters.length === 0) return print('no dead letters')
  const rows = letters.map(({ letter: { error }, replayedAt }) => [
    error.id,
    error.timestamp,
    error.stage,
    error.type,
    error.position,
    String(error.attempts),
    replayedAt ?? '-',
    error.message,
  ])
  print(formatTable({ head: ['ID', 'TIME', 'STAGE', 'TYPE', 'POSITION', 'ATTEMPTS', 'REPLAYED', 'MESSAGE'], rows }))
}

export async function showDeadLetter(globals: Globals, at: { name: string; id: string }, options: DeadLetterFlags): Promise<void> {
  const letter = (await read(globals, at.name, { ...options, count: String(countMax) })).find((each) => each.letter.error.id === at.id)
  if (letter === undefined)
    throw new CliError(`there is no dead letter ${at.id} among the newest ${countMax}`, {
      next: `brokkr flows dead-letters list ${at.name}`,
      exitCode: exitCodes.notFound,
    })
  print(JSON.stringify(letter, null, 2))
}
