// Replays of dead letters: a request starts a Job once; its end is reported with the counts that it leaves as its termination message.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { controllerOf, type Kube, type KubeObject, refOf, rowsAt, textAt } from '@brokkr/kube'
import type { ProcessorEnvironment } from '../desired/pod.ts'
import { replayJob } from '../desired/replay-job.ts'
import { fieldManager, label } from '../names.ts'
import { type FlowEvent, normal, warning } from '../status/events.ts'
import { findJobEnd } from '../status/jobs.ts'
import { type Children, findRefusal } from './children.ts'
import type { ReplayRequest } from './one-shots.ts'

export interface ReplayDeps {
  readonly kube: Kube
  readonly children: Children
  readonly environment: () => ProcessorEnvironment
  readonly jobs: (flow: string) => readonly KubeObject[]
}

const reported = 'dataflow.dataflow.io/reported'

export class Replays {
  readonly #deps: ReplayDeps

  constructor(deps: ReplayDeps) {
    this.#deps = deps
  }

  /** Jobs of replays that have ended and are not reported yet. */
  list(flow: string, uid: string | undefined): readonly KubeObject[] {
    return this.#deps.jobs(flow).filter((job) => {
      const { labels = {}, annotations = {} } = job.metadata
      // A Job of someone else may have the same labels.
      if (uid === undefined || controllerOf(job)?.uid !== uid) return false
      return labels[label.replayId] !== undefined && annotations[reported] === undefined && findJobEnd(job) !== undefined
    })
  }

  async run(
    object: KubeObject,
    flow: Flow,
    request: ReplayRequest | undefined,
    ended: readonly KubeObject[],
    signal: AbortSignal,
  ): Promise<FlowEvent[]> {
    const events: FlowEvent[] = []
    if (request !== undefined) events.push(await this.#start(object, flow, request, signal))
    for (const job of ended) {
      await this.#deps.kube.patch(
        refOf(job),
        { type: 'merge', body: { metadata: { annotations: { [reported]: 'true' } } } },
        { fieldManager, signal },
      )
      events.push(await this.#describeEnd(job, signal))
    }
    return events
  }

  async #start(object: KubeObject, flow: Flow, request: ReplayRequest, signal: AbortSignal): Promise<FlowEvent> {
    if (flow.errors === undefined) return warning('ReplayFailed', `replay ${request.id}: the flow has no errors sink`)
    const job = replayJob(object, flow, request, this.#deps.environment())
    const refusal = await findRefusal(() => this.#deps.children.start(object, job, signal))
    if (refusal !== undefined) return warning('ReplayFailed', `replay ${request.id}: ${refusal}`)
    return { ...normal('ReplayStarted', `replay ${request.id} runs as Job ${job.metadata.name}`), name: `${job.metadata.name}.started` }
  }

  async #describeEnd(job: KubeObject, signal: AbortSignal): Promise<FlowEvent> {
    const id = job.metadata.labels?.[label.replayId] ?? ''
    const { namespace, name } = job.metadata
    const pods = await this.#deps.kube.list({ apiVersion: 'v1', kind: 'Pod' }, { namespace, labelSelector: `job-name=${name}`, signal })
    const pod = pods.items.at(-1)
    const [text] = rowsAt(pod, 'status', 'containerStatuses').flatMap((row) => textAt(row, 'state', 'terminated', 'message') ?? [])
    const counts = text === undefined ? '' : `: ${text.slice(0, 500)}`
    // Named, because the cache may show the Job without the mark once more.
    const end =
      findJobEnd(job) === 'Complete'
        ? normal('ReplayFinished', `replay ${id} has ended${counts}`)
        : warning('ReplayFailed', `replay ${id} failed; see Job ${name}${counts}`)
    return { ...end, name: `${name}.ended` }
  }
}
