// Carries out one schedule: three agents and five stacks of its own, each command done to the real servers and, once its commit is
// confirmed, to the model. A command that makes no sense at that moment does nothing, so that schedules shrink freely.

import { createAgent, type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { configMapYaml } from '@brokkr/testing/feed-world.ts'
import { type LateSubmission, openSubmission } from '@brokkr/testing/late-submission.ts'
import { Model, type Saved as Replicated } from './model.ts'
import { ModelAgent, type Saved } from './model-agent.ts'
import type { Plant } from './model-plant.ts'

export const verbs = {
  submit: 8,
  mark: 1,
  pin: 3,
  release: 2,
  rollBackPinned: 1,
  relabelAgent: 3,
  relabelStack: 3,
  retarget: 3,
  deleteStack: 1,
  undelete: 1,
  hold: 4,
  commit: 3,
  rollBack: 1,
  killConnection: 2,
  cutStream: 3,
  dropLink: 1,
  healLink: 2,
  pauseReader: 2,
  resumeReader: 2,
  crashAgent: 3,
  restartProcess: 0.3,
  expireLog: 1,
  changeEpoch: 0.5,
  jumpClock: 1,
  // Drawn by schedules of their own: a standby costs seconds.
  cutReplication: 0,
  promoteStandby: 0,
} // prettier-ignore
export type Verb = keyof typeof verbs
export interface Command {
  readonly verb: Verb
  readonly agent: number
  readonly stack: number
  readonly which: number
}

export class ModelWorld {
  readonly model = new Model()
  readonly agents: ModelAgent[] = []
  readonly #plant: Plant
  readonly #labels = [unique('l'), unique('l')]
  readonly #keys: TestAgent[] = []
  readonly #stacks: string[] = []
  readonly #held = new Map<string, LateSubmission>()
  #connects = 0
  /** What the standby has got; null while there is none. */
  #replicated: Replicated | null = null

  private constructor(plant: Plant) {
    this.#plant = plant
  }

  static async make(plant: Plant): Promise<ModelWorld> {
    const world = new ModelWorld(plant)
    for (let n = 0; n < 5; n += 1) await world.#addStack(n)
    for (let n = 0; n < 3; n += 1) await world.#addAgent(n)
    return world
  }

  async do({ verb, agent, stack, which }: Command): Promise<void> {
    const stackId = this.#stacks[stack % this.#stacks.length]!
    const isFree = !this.#held.has(stackId) && !this.model.stacks.get(stackId)!.isDeleted
    await this.#acts[verb]({
      agent: this.agents[agent % this.agents.length]!,
      stackId,
      isFree,
      which: which % 2,
      label: this.#labels[which % 2]!,
    })
  }

  /** Everything broken is mended, everything open ends. */
  async calm(): Promise<void> {
    for (const link of this.#plant.links) link.heal()
    for (const stackId of this.#held.keys()) await this.#end(stackId, 'commit')
    for (const agent of this.agents) agent.resume()
  }

  /** Another one that was stopped at this moment and starts now. */
  resumeFrom(agent: ModelAgent, from: Saved): ModelAgent {
    return this.#follow(this.#keys.find((key) => key.agent.id === agent.id)!, from)
  }

  /** Also after a schedule that failed in the middle, whose error must not be hidden by another one. */
  async close(): Promise<void> {
    for (const link of this.#plant.links) link.heal()
    for (const held of this.#held.values()) await held.rollback().catch(() => undefined)
    await Promise.all(this.agents.map((agent) => agent.stop()))
  }

  readonly #acts: Record<
    Verb,
    (given: { agent: ModelAgent; stackId: string; isFree: boolean; which: number; label: string }) => Promise<void> | void
  > = {
    submit: ({ stackId, isFree, which }) => (isFree ? this.#submit(stackId, which, false) : undefined),
    mark: ({ stackId, isFree, which }) => (isFree ? this.#submit(stackId, which, true) : undefined),
    pin: async ({ stackId, isFree, which }) => {
      const { newest, objectId } = this.model.stacks.get(stackId)!
      if (!isFree || newest === null) return
      const body = { reason: 'r', ...(which === 0 ? {} : { sequence_id: newest.sequence }) }
      await this.#plant.client(which).holdStack({ params: { id: stackId }, body })
      this.model.bound(stackId, which === 0 ? objectId : newest.id)
    },
    release: async ({ stackId, isFree, which }) => {
      if (!isFree || this.model.stacks.get(stackId)!.heldId === null) return
      await this.#plant.client(which).releaseStack({ params: { id: stackId } })
      this.model.bound(stackId, null)
    },
    rollBackPinned: async ({ stackId, isFree, which }) => {
      const { plainSequence } = this.model.stacks.get(stackId)!
      if (!isFree || plainSequence === null) return
      const body = { sequence_id: plainSequence, hold: true }
      const made = await this.#plant.client(which).rollbackStack({ params: { id: stackId }, body })
      this.model.submitted(stackId, { id: made.id, sequence: made.sequence_id }, { held: true })
    },
    relabelAgent: ({ agent, which, label }) => this.#relabelAgent(agent.id, which, label),
    relabelStack: ({ stackId, isFree, which, label }) => (isFree ? this.#relabelStack(stackId, which, label) : undefined),
    retarget: ({ agent, stackId, isFree, which }) => (isFree ? this.#retarget(agent.id, stackId, which) : undefined),
    deleteStack: async ({ stackId, isFree, which }) => {
      if (!isFree) return
      await this.#plant.client(which).deleteStack({ params: { id: stackId } })
      this.model.change(() => {
        this.model.deleted(stackId)
      })
    },
    undelete: async ({ stackId, which }) => {
      // Targeting waits for whoever holds a stack, and this schedule is the one who would let it go.
      if (!this.model.stacks.get(stackId)!.isDeleted || this.#held.size > 0) return
      await this.#plant.client(which).undeleteStack({ params: { id: stackId } })
      const objects = await this.#plant
        .client(which)
        .listDeploymentObjects({ params: { id: stackId }, query: { limit: 1, content: false } })
      this.model.undeleted(stackId, objects[0]!)
    },
    hold: async ({ stackId, isFree, which }) => {
      if (isFree)
        this.#held.set(
          stackId,
          await openSubmission(
            { connect: this.#plant.connect, encryptionKey: this.#plant.encryptionKey },
            stackId,
            configMapYaml(`held ${which}`),
          ),
        )
    },
    commit: ({ which }) => this.#end([...this.#held.keys()].at(which === 0 ? 0 : -1), 'commit'),
    rollBack: ({ which }) => this.#end([...this.#held.keys()].at(which === 0 ? 0 : -1), 'rollback'),
    killConnection: ({ which }) => this.#killConnection(which),
    cutStream: ({ agent }) => agent.cut(),
    dropLink: ({ which }) => this.#plant.links[which]!.halfOpen(),
    healLink: ({ which }) => this.#plant.links[which]!.heal(),
    pauseReader: ({ agent }) => agent.pause(),
    resumeReader: ({ agent }) => agent.resume(),
    crashAgent: ({ agent }) => agent.crash(),
    restartProcess: ({ which }) => this.#plant.restart(which),
    expireLog: async () => {
      await this.#plant.sql('update feed_state set floor_xid = greatest(floor_xid, pg_snapshot_xmin(pg_current_snapshot()))')
      await this.#plant.sql('delete from change_log where xid < (select floor_xid from feed_state)')
    },
    changeEpoch: async () => {
      // Far from any that a promotion could make.
      await this.#plant.sql('update feed_state set timeline = timeline + 1000')
    },
    jumpClock: ({ which }) => this.#plant.jumpClock(which),
    cutReplication: async () => {
      await this.#plant.cutReplication()
      this.#replicated = this.model.copy()
    },
    promoteStandby: async () => {
      if (this.#replicated === null) return
      await this.#plant.promoteStandby()
      // Whoever held a transaction open finds that its server is gone.
      for (const held of this.#held.values()) await held.rollback().catch(() => undefined)
      this.#held.clear()
      this.model.goBackTo(this.#replicated)
      this.#replicated = null
    },
  }

  async #submit(stackId: string, which: number, isMarker: boolean): Promise<void> {
    const body = { yaml_content: configMapYaml(unique('v')), is_deletion_marker: isMarker }
    const made = await this.#plant.client(which).createDeploymentObject({ params: { id: stackId }, body })
    this.model.submitted(stackId, { id: made.id, sequence: made.sequence_id }, { marker: isMarker })
  }

  async #relabelAgent(id: string, which: number, label: string): Promise<void> {
    // Targeting waits for whoever holds a stack, and this schedule is the one who would let it go.
    if (this.#held.size > 0) return
    const { labels } = this.model.agents.get(id)!
    if (labels.has(label)) await this.#plant.admin(which).agentsRemoveLabel({ params: { id, label } })
    else await this.#plant.admin(which).agentsAddLabel({ params: { id }, body: { agent_id: id, label } })
    this.model.change(() => void (labels.delete(label) || labels.add(label)))
  }

  async #relabelStack(id: string, which: number, label: string): Promise<void> {
    const { labels } = this.model.stacks.get(id)!
    if (labels.has(label)) await this.#plant.client(which).stacksRemoveLabel({ params: { id, label } })
    else await this.#plant.client(which).stacksAddLabel({ params: { id }, body: label })
    this.model.change(() => void (labels.delete(label) || labels.add(label)))
  }

  async #retarget(id: string, stackId: string, which: number): Promise<void> {
    const { explicit } = this.model.agents.get(id)!
    if (explicit.has(stackId)) await this.#plant.client(which).removeTarget({ params: { id, stack_id: stackId } })
    else await this.#plant.client(which).addTarget({ params: { id }, body: { agent_id: id, stack_id: stackId } })
    this.model.change(() => void (explicit.delete(stackId) || explicit.add(stackId)))
  }

  async #end(stackId: string | undefined, how: 'commit' | 'rollback'): Promise<void> {
    if (stackId === undefined) return
    const held = this.#held.get(stackId)!
    this.#held.delete(stackId)
    await held[how]()
    if (how === 'commit') this.model.submitted(stackId, { id: held.objectId, sequence: held.sequence })
  }

  /** One that listens or reads for a broker, not one that a schedule holds open. */
  async #killConnection(which: number): Promise<void> {
    await this.#plant.sql(
      `select pg_terminate_backend(pid) from (
         select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state = 'idle'
           and query ilike $1 order by pid limit 1) one`,
      [which === 0 ? 'listen%' : '%change_log%'],
    )
  }

  async #addStack(n: number): Promise<void> {
    const labels = n % 2 === 0 ? [this.#labels[0]!] : []
    const { id } = await this.#plant
      .client(0)
      .createStack({ body: { name: unique('stack'), generator_id: this.#plant.tenant.generator.id, labels } })
    this.#stacks.push(id)
    this.model.stacks.set(id, {
      labels: new Set(labels),
      isDeleted: false,
      rev: 0,
      objectId: null,
      newest: null,
      heldId: null,
      plainSequence: null,
      explicitAgents: [],
    })
  }

  async #addAgent(n: number): Promise<void> {
    const labels = n < 2 ? [this.#labels[n]!] : this.#labels
    const key = await createAgent(
      { admin: this.#plant.admin(0), clientOf: () => this.#plant.client(0) },
      { labels, generators: [this.#plant.tenant] },
    )
    this.#keys.push(key)
    this.model.agents.set(key.agent.id, { labels: new Set(labels), explicit: new Set() })
    this.agents.push(this.#follow(key))
  }

  #follow({ agent, pak }: TestAgent, from?: Saved): ModelAgent {
    const url = () => `http://127.0.0.1:${this.#plant.links[(this.#connects += 1) % 2]!.port}`
    return new ModelAgent({ id: agent.id, pak, url, ...(from === undefined ? {} : { from }) })
  }
}
