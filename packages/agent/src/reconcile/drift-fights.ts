// Fields that we and somebody else keep setting against each other. The first few times healing is the right answer; after that it
// only wears both out, so the pause before the next one doubles until the other side lets go. Pure but for what it remembers.
import { identityKey } from '@brokkr/kube/object.ts'
import type { FieldChange } from './verify.ts'

/** A place that was healed. Thousands may be while there is no fight, and of those nothing but the times is needed. */
interface Healed {
  /** Of the last few healings. */
  readonly times: readonly number[]
  readonly fight: Fight | null
}
interface Fight {
  readonly key: string
  readonly change: FieldChange
  readonly level: number
  readonly restUntilMs: number
}
const timesMax = 5
const baseMs = 1_000
/** Per stack; beyond it the oldest are forgotten. */
const placesMax = 500

export class DriftFights {
  readonly #byStack = new Map<string, Map<string, Healed>>()
  readonly #windowMs: () => number

  /** So often within the window is a fight; the longest pause is half of it. */
  constructor(windowMs: () => number) {
    this.#windowMs = windowMs
  }

  healed(stackId: string, changes: readonly FieldChange[], nowMs: number): void {
    const fights = this.#byStack.get(stackId) ?? new Map<string, Healed>()
    this.#byStack.set(stackId, fights)
    for (const change of changes) {
      const place = `${keyOf(change)} ${change.path}`
      const healed = this.#next(fights.get(place), change, nowMs)
      fights.delete(place)
      fights.set(place, healed)
    }
    for (const [place, { times }] of fights)
      if (fights.size > placesMax || nowMs - (times.at(-1) ?? 0) > this.#windowMs()) fights.delete(place)
    if (fights.size === 0) this.#byStack.delete(stackId)
  }

  /** Members that are left alone for now. */
  resting(stackId: string, nowMs: number): ReadonlySet<string> {
    return new Set(this.#fought(stackId, nowMs).flatMap(({ key, restUntilMs }) => (restUntilMs > nowMs ? [key] : [])))
  }

  /** When the member may be healed again; 0: at once. */
  restMs(stackId: string, key: string, nowMs: number): number {
    const own = this.#fought(stackId, nowMs).filter((fight) => fight.key === key)
    return Math.max(0, ...own.map(({ restUntilMs }) => restUntilMs - nowMs))
  }

  /** What is fought over, for whoever must end it; null: nothing. */
  describe(stackId: string, nowMs: number): string | null {
    const fights = this.#fought(stackId, nowMs).slice(0, 20)
    const texts = fights.map(({ change: { kind, namespace, name, path, manager } }) => {
      const what = `${kind} ${namespace ? `${namespace}/` : ''}${name}`
      return path === '/' ? `${what} is deleted again and again` : `${path} of ${what} is set again and again by ${manager ?? 'somebody'}`
    })
    return texts.length === 0
      ? null
      : `${texts.join('; ')}. It is healed ever more slowly; name the field in brokkr.io/ignore-fields, or stop the other writer`
  }

  forget(stackId: string): void {
    this.#byStack.delete(stackId)
  }

  get size(): number {
    return [...this.#byStack.values()].reduce((sum, fights) => sum + fights.size, 0)
  }

  #next(before: Healed | undefined, change: FieldChange, nowMs: number): Healed {
    const isOver = before === undefined || nowMs - (before.times.at(-1) ?? 0) > this.#windowMs()
    const times = [...(isOver ? [] : before.times), nowMs].slice(-timesMax)
    const isFight = times.length === timesMax && nowMs - (times[0] ?? 0) <= this.#windowMs()
    const earlier = isOver ? null : before.fight
    if (earlier === null && !isFight) return { times, fight: null }
    const level = (earlier?.level ?? 0) + 1
    const pauseMs = Math.min(this.#windowMs() / 2, baseMs * 2 ** Math.min(level, 30))
    return { times, fight: { key: keyOf(change), change, level, restUntilMs: nowMs + pauseMs } }
  }

  #fought(stackId: string, nowMs: number): Fight[] {
    const fought: Fight[] = []
    for (const { times, fight } of this.#byStack.get(stackId)?.values() ?? [])
      if (fight !== null && nowMs - (times.at(-1) ?? 0) <= this.#windowMs()) fought.push(fight)
    return fought
  }
}

const keyOf = ({ group, kind, namespace = '', name }: FieldChange): string => identityKey({ group, kind, namespace, name })
