// Reads /progress of the processors of all flows, each flow at its own interval, beside the passes: a processor that does not answer delays
// no pass. A processor that does not respond in time, or with an invalid body, counts as not reached.
import { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { type Controller, isTerminating, type KubeObject, startController, textAt } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { annotation } from '../names.ts'
import { staleMs } from './observed-status.ts'

const answerMs = 5_000
const bytesMax = 1 << 20
const port = 9090
const readersMax = 32
const startingMs = 10_000

/** `places`: `host:port` of each processor. */
export async function readProgress(outbound: Pick<Outbound, 'request'>, places: readonly string[]): Promise<Progress[]> {
  const answers = await Promise.all(places.map((place) => ask(outbound, place)))
  return answers.filter((answer) => answer !== undefined)
}

async function ask(outbound: Pick<Outbound, 'request'>, place: string): Promise<Progress | undefined> {
  try {
    const url = `http://${place}/progress`
    const { status, body } = await outbound.request({ url, timeoutMs: answerMs, answerBytesMax: bytesMax })
    return status === 200 ? Progress.parse(JSON.parse(body.toString())) : undefined
  } catch {
    return undefined
  }
}

/** Address of the processor in a pod; undefined while it has none. */
function findPlace(pod: KubeObject, isFromAnnotation: boolean): string | undefined {
  if (isTerminating(pod)) return undefined
  if (isFromAnnotation) return pod.metadata.annotations?.[annotation.progressAddress]
  const address = textAt(pod, 'status', 'podIP')
  if (address === undefined || textAt(pod, 'status', 'phase') !== 'Running') return undefined
  return `${address.includes(':') ? `[${address}]` : address}:${port}`
}

export interface ProgressOptions {
  readonly pods: (flow: string) => readonly KubeObject[]
  readonly isFromAnnotation: boolean
  readonly everyMs: number
  /** Called after a read. */
  readonly onRead: (flow: string) => void
}

export interface Answers {
  readonly answers: readonly Progress[]
  readonly atMs: number
  /** Between the last two reads; undefined without two reads of the same counters. */
  readonly processedPerSecond?: number | undefined
}

export class ProgressReader {
  readonly #deps: { readonly clock: Clock; readonly outbound: Pick<Outbound, 'request'> }
  readonly #options: ProgressOptions
  readonly #controller: Controller
  readonly #byFlow = new Map<string, Answers>()

  constructor(deps: { readonly clock: Clock; readonly log: Log; readonly outbound: Pick<Outbound, 'request'> }, options: ProgressOptions) {
    this.#deps = deps
    this.#options = options
    this.#controller = startController(deps, { name: 'progress', concurrency: readersMax, reconcile: (flow) => this.#read(flow) })
  }

  /** Reads soon, for instance because a pod was added. */
  wake(flow: string): void {
    this.#controller.enqueueAfter(flow, 200)
  }

  get(flow: string): Answers {
    const known = this.#byFlow.get(flow)
    // An old answer is no observation of now.
    return known === undefined || this.#deps.clock.now() - known.atMs > staleMs ? { answers: [], atMs: 0 } : known
  }

  forget(flow: string): void {
    this.#byFlow.delete(flow)
  }

  stop(): Promise<void> {
    return this.#controller.stop()
  }

  async #read(flow: string): Promise<'done' | { afterMs: number }> {
    const places = this.#options.pods(flow).flatMap((pod) => findPlace(pod, this.#options.isFromAnnotation) ?? [])
    const had = this.#byFlow.get(flow)
    if (places.length === 0) {
      this.#byFlow.delete(flow)
      if (had === undefined) return 'done'
      this.#options.onRead(flow)
      // The pass judges once more when the last answer is stale.
      return { afterMs: staleMs }
    }
    const { everyMs } = this.#options
    const answers = await readProgress(this.#deps.outbound, places)
    if (answers.length > 0) this.#byFlow.set(flow, toAnswers(had, answers, this.#deps.clock.now()))
    this.#options.onRead(flow)
    return { afterMs: answers.some(({ isReady }) => isReady) ? everyMs : Math.min(everyMs, startingMs) }
  }
}

/** Processors of one group share counters, so the highest value is the newest. */
const newest = (answers: readonly Progress[]): Progress | undefined =>
  answers.toSorted((left, right) => right.processedCount - left.processedCount)[0]

function toAnswers(before: Answers | undefined, answers: readonly Progress[], atMs: number): Answers {
  const [old, next] = [newest(before?.answers ?? []), newest(answers)]
  const seconds = (atMs - (before?.atMs ?? atMs)) / 1000
  if (old === undefined || next === undefined || seconds <= 0 || old.countersSince !== next.countersSince) return { answers, atMs }
  const processed = Math.max(0, next.processedCount - old.processedCount)
  return { answers, atMs, processedPerSecond: Number((processed / seconds).toPrecision(3)) }
}
