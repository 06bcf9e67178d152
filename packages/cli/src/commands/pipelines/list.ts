// brokkr pipeline list: one line per pipeline with its run, its environments and what holds it back.

import type { StoredPipeline } from '@brokkr/contract/pipelines/endpoints.ts'
import { HOLD_ANNOTATION } from '@brokkr/contract/pipelines/fields.ts'
import type { EnvironmentStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { Globals } from '../../cli.ts'
import { openClient } from '../../context.ts'
import { age } from '../../output.ts'
import { show } from '../../show.ts'
import { environmentsOf, listAll, shortRevision, statusOf } from './find.ts'
import type { PipelineFlags } from './flags.ts'

export async function listPipelines(globals: Globals, options: PipelineFlags): Promise<void> {
  const pipelines = await listAll(await openClient(globals), options.namespace)
  show(options.output, {
    value: pipelines,
    names: pipelines.map(({ metadata }) => metadata.name),
    table: () => ({ head: ['NAME', 'NAMESPACE', 'RUN', 'ENVIRONMENTS', 'WAITS FOR', 'HELD', 'READY', 'AGE'], rows: pipelines.map(toRow) }),
  })
}

export function toRow(pipeline: StoredPipeline): string[] {
  const { metadata } = pipeline
  const { run, conditions = [], environments = {} } = statusOf(pipeline)
  const find = (type: string) => conditions.find((condition) => condition.type === type)
  const ready = find('Ready')
  return [
    metadata.name,
    metadata.namespace,
    run === undefined ? '-' : `${run.number} ${shortRevision(run.revision)}`,
    environmentsOf(pipeline)
      .map((name) => describeEnvironment(name, environments[name]))
      .join(' → ') || '-',
    find('PromotionPending')?.reason ?? '-',
    metadata.annotations?.[HOLD_ANNOTATION] === 'true' ? 'yes' : 'no',
    ready === undefined ? '-' : ready.status === 'True' ? 'yes' : ready.reason,
    age(metadata.creationTimestamp),
  ]
}

/** `dev 1.1.0`; with its phase while a promotion has not succeeded; `?` where targets differ or cannot be read. */
function describeEnvironment(name: string, status: EnvironmentStatus | undefined): string {
  const revisions = new Set(status?.targets?.map(({ revision }) => revision))
  const [revision] = revisions
  const shown = revisions.size === 1 && revision !== undefined ? shortRevision(revision) : '?'
  const phase = status?.promotion?.phase
  return phase === undefined || phase === 'Succeeded' ? `${name} ${shown}` : `${name} ${shown} (${phase})`
}
