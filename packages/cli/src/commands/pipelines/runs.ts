// brokkr promote and brokkr pipeline rollback: start a run of one revision.
import type { Client } from '@brokkr/client'
import type { StoredPipeline } from '@brokkr/contract/pipelines/endpoints.ts'
import type { Globals } from '../../cli.ts'
import { openClient } from '../../context.ts'
import { parseDuration } from '../../duration.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { environmentsOf, listPromotions, type Promotion, requireKnown, requirePipeline, shortRevision, statusOf } from './find.ts'
import type { ChangeFlags } from './flags.ts'
import { chooseRollbackRevision } from './rollback-revision.ts'
import { waitForRun } from './wait.ts'

const historyMax = 200

export async function startRun(globals: Globals, name: string, options: ChangeFlags & { kind: 'manual' | 'rollback' }): Promise<void> {
  const limitMs = parseDuration(options.timeout, '--timeout')
  const client = await openClient(globals)
  const pipeline = await requirePipeline(client, name, options.namespace)
  const environments = options.to ?? []
  for (const environment of environments) requireKnown(pipeline, environment)
  const revision =
    options.revision ??
    (options.kind === 'rollback' ? await findEarlierRevision(client, pipeline, environments) : findFirstRevision(pipeline))
  const params = { namespace: pipeline.metadata.namespace, name }
  const run = await client.startRun({ params, body: { revision, environments, kind: options.kind } })
  const scope = environments.length === 0 ? environmentsOf(pipeline).slice(1) : environments
  show(options.output, {
    value: run,
    names: [name],
    lines: () => [
      `${name} run ${run.number}: ${shortRevision(revision)} into ${scope.join(', ')}`,
      ...(options.kind === 'rollback' ? [`the pipeline is held; let it go on with: brokkr pipeline release ${name}`] : []),
    ],
  })
  if (options.wait === true) await waitForRun(client, pipeline, { run: run.number, revision, environments: scope, limitMs })
}

function findFirstRevision(pipeline: StoredPipeline): string {
  const { environments = {} } = statusOf(pipeline)
  const [first = ''] = environmentsOf(pipeline)
  const revision = environments[first]?.latestRevision
  if (revision !== undefined) return revision
  throw noRevision(pipeline, `the first environment ${first} has not settled on a revision`)
}

/** The first named environment decides. */
async function findEarlierRevision(client: Client, pipeline: StoredPipeline, [environment = '']: readonly string[]): Promise<string> {
  return requireRollbackRevision(pipeline, environment, await listPromotions(client, pipeline, { environment }, historyMax))
}

export function requireRollbackRevision(
  pipeline: StoredPipeline,
  environment: string,
  promotions: readonly Pick<Promotion, 'spec' | 'status'>[],
): string {
  const { targets = [] } = statusOf(pipeline).environments?.[environment] ?? {}
  const running = [...new Set(targets.flatMap(({ revision }) => revision ?? []))]
  const revision = chooseRollbackRevision({ running, promotions })
  if (revision !== null) return revision
  throw noRevision(pipeline, `no earlier revision of ${environment} is recorded`)
}

const noRevision = ({ metadata }: StoredPipeline, where: string): CliError =>
  new CliError(`no revision of ${metadata.name} can be chosen`, {
    where,
    next: 'name one: --revision REVISION',
    exitCode: exitCodes.refused,
  })
