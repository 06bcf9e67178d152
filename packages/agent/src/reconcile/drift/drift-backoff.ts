// Slows down healing of fields that another writer keeps changing. After five healings within the window the pause doubles with each
// healing, until the other writer stops.
import { identityKey } from '@brokkr/kube'
import type { FieldChange } from './detect-drift.ts'

/** Healing times of one path. There can be thousands without a conflict, so only the times are kept. */
interface Healed {
  /** Times of the last healings. */
  readonly times: readonly number[]
  readonly fight: BackoffState | null
}
interface BackoffState {
  readonly key: string
  readonly change: FieldChange
  readonly level: number
  readonly restUntilMs: number
}
const timesMax = 5
const baseMs = 1_000
/** Per stack; the oldest paths are dropped first. */
const placesMax = 500

export class DriftBackoff {
  readonly #byStack = new Map<string, Map<string, Healed>>()
  readonly #windowMs: () => number

  /** Five healings within the window are a conflict; the longest pause is half of the window. */
  constructor(windowMs: () => number) {
    this.#windowMs = windowMs
  }

  healed(stackId: string, changes: readonly FieldChange[], nowMs: number): void {
    const fights = this.#byStack.get(stackId) ?? new Map<string, Healed>()
    this.#byStack.set(stackId, fights)
    for (const change of changes) {
      const place = `${toMemberKey(change)} ${change.path}`
      const healed = this.#next(fights.get(place), change, nowMs)
      fights.delete(place)
      fights.set(place, healed)
    }
    for (const [place, { times }] of fights)
      if (fights.size > placesMax || nowMs - (times.at(-1) ?? 0) > this.#windowMs()) fights.delete(place)
    if (fights.size === 0) this.#byStack.delete(stackId)
  }

  /** Members that are not healed for now. */
  listBackedOff(stackId: string, nowMs: number): ReadonlySet<string> {
    return new Set(this.#listConflicts(stackId, nowMs).flatMap(({ key, restUntilMs }) => (restUntilMs > nowMs ? [key] : [])))
  }

  /** Time until the member may be healed again; 0: now. */
  restMs(stackId: string, key: string, nowMs: number): number {
    const backoffs = this.#listConflicts(stackId, nowMs).filter((fight) => fight.key === key)
    return Math.max(0, ...backoffs.map(({ restUntilMs }) => restUntilMs - nowMs))
  }

  /** Describes the conflict for operators; null: none. */
  describe(stackId: string, nowMs: number): string | null {
    const fights = this.#listConflicts(stackId, nowMs).slice(0, 20)
    const texts = fights.map(({ change: { kind, namespace, name, path, manager } }) => {
      const what = `${kind} ${namespace ? `${namespace}/` : ''}${name}`
      return path === '/'
        ? `${what} is deleted again and again`
        : `${path} of ${what} is set again and again by ${manager ?? 'an unknown manager'}`
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
    return { times, fight: { key: toMemberKey(change), change, level, restUntilMs: nowMs + pauseMs } }
  }

  #listConflicts(stackId: string, nowMs: number): BackoffState[] {
    const fought: BackoffState[] = []
    for (const { times, fight } of this.#byStack.get(stackId)?.values() ?? [])
      if (fight !== null && nowMs - (times.at(-1) ?? 0) <= this.#windowMs()) fought.push(fight)
    return fought
  }
}

const toMemberKey = ({ group, kind, namespace = '', name }: FieldChange): string => identityKey({ group, kind, namespace, name })
