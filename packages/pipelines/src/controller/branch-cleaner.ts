// Removes branches of promotions that ended more than an hour ago. Only the leader cleans, each promotion once per process.
import { isTerminal } from '@brokkr/contract/pipelines/promotion.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type PipelineRecord, phaseOf } from '../objects.ts'
import { type AttemptDeps, cleanEffect } from './attempt.ts'
import type { Leadership } from './leadership.ts'
import type { Records } from './records.ts'

export interface BranchCleanerDeps extends AttemptDeps {
  readonly records: Pick<Records, 'listPipelines' | 'listPromotions'>
  readonly leadership: Leadership
  readonly clock: Clock
  readonly log: Log
}

const PROMOTIONS_PER_RUN = 200

export class BranchCleaner {
  readonly #deps: BranchCleanerDeps
  readonly #ageMs: number
  readonly #cleaned = new Set<string>()

  constructor(deps: BranchCleanerDeps, ageMs: number) {
    this.#deps = deps
    this.#ageMs = ageMs
  }

  async run(signal: AbortSignal): Promise<{ cleaned: number }> {
    let cleaned = 0
    this.#forgetDeleted()
    for (const pipeline of this.#deps.records.listPipelines())
      cleaned += await this.#cleanPipeline(pipeline, PROMOTIONS_PER_RUN - cleaned, signal)
    return { cleaned }
  }

  #forgetDeleted(): void {
    const { records } = this.#deps
    const stored = new Set([...records.listPipelines()].flatMap(({ uid }) => records.listPromotions(uid).map((promotion) => promotion.uid)))
    for (const uid of this.#cleaned) if (!stored.has(uid)) this.#cleaned.delete(uid)
  }

  async #cleanPipeline(pipeline: PipelineRecord, max: number, signal: AbortSignal): Promise<number> {
    if (!pipeline.spec.ok || pipeline.spec.spec.suspend === true) return 0
    const { spec } = pipeline.spec
    const { records, clock, leadership, log } = this.#deps
    const ended = records
      .listPromotions(pipeline.uid)
      .filter((promotion) => isTerminal(phaseOf(promotion)) && !this.#cleaned.has(promotion.uid))
      .filter(({ status }) => clock.now() - Date.parse(status.phaseSince ?? '') >= this.#ageMs)
      .slice(0, max)
    let cleaned = 0
    for (const promotion of ended) {
      if (!leadership.isLeader) break
      const isClean = await cleanEffect(this.#deps, { pipeline, spec, promotion }, signal).catch((error: unknown) => {
        log.warn('promotion not cleaned', { promotion: promotion.key, error: String(error) })
        return false
      })
      if (isClean) this.#cleaned.add(promotion.uid)
      cleaned += isClean ? 1 : 0
    }
    return cleaned
  }
}
