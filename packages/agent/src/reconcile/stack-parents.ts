// The parent of each stack in the agent's namespace: a Secret with inventory, applied object and manifest. Uses the ApplySet of
// packages/kube for the inventory.
import {
  API_RETRY,
  type ApplySet,
  applySetId,
  emptyApplySet,
  ID_LABEL,
  type Kube,
  listApplySets,
  type ParentForm,
  READ_RETRY,
  readApplySet,
  removeApplySet,
  retrying,
  saveApplySet,
  selectorOf,
  type UnreadableParent,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { z } from 'zod'
import { FIELD_MANAGER, OWNER_LABEL, STACK_LABEL } from './plan/ownership-metadata.ts'
import { PARENT_TYPE, PARENT_PREFIX as prefix, readInventories, type SavedInventories } from './saved-inventories.ts'
import type { GeneratorRef } from './stack-generators.ts'

const stateVersion = 1
const StackState = z.object({
  version: z.int(),
  agent_id: z.string(),
  stack_id: z.string(),
  deployment_object_id: z.string(),
  sequence_id: z.int(),
  rev: z.int(),
  checksum: z.string(),
  drift: z.string(),
  /** The event of the apply, sent again after a restart with the same id. */
  event: z.object({ id: z.string(), type: z.string(), at: z.string() }),
})
/** The applied object. */
export type StackState = z.output<typeof StackState>

/** Number of members when a deployment object arrived: the base of the prune guard for all its attempts. */
const PruneBase = z.object({ object_id: z.string(), standing: z.int() })
export type PruneBase = z.output<typeof PruneBase>
const SavedGenerator = z.object({ generator_id: z.string(), name: z.string().nullable() })

export interface StackParent {
  readonly set: ApplySet
  /** Null: nothing was completely applied yet. */
  readonly state: StackState | null
  readonly pruneBase: PruneBase | null
  readonly generator: GeneratorRef | null
  /** gzip of the applied manifest; null: not stored. */
  readonly manifest: Buffer | null
}

const stateFile = 'state.json'
const manifestFile = 'manifest.yaml.gz'
const pruneBaseFile = 'basis.json'
const generatorFile = 'tenant.json'
const secretBytes = 900 * 1024
const memberBytes = 64

export class StackParents {
  readonly #deps: { kube: Kube; clock: Clock }
  readonly #at: { namespace: string; agentId: string; tooling: string; savesManifests: boolean }

  #unreadable: readonly UnreadableParent[] = []
  readonly #unsaved = new Set<string>()
  /** Resource version of each parent as last read or written. */
  readonly #versions = new Map<string, string>()

  constructor(deps: { kube: Kube; clock: Clock }, at: { namespace: string; agentId: string; tooling: string; savesManifests: boolean }) {
    this.#deps = deps
    this.#at = at
  }

  setId(stackId: string): string {
    return applySetId(this.parentAt(stackId))
  }

  /** Returns an empty set if there is no parent. Throws ForeignApplySet for a parent of another owner. */
  async read(stackId: string, signal: AbortSignal): Promise<StackParent & { readonly exists: boolean }> {
    const set = await this.#readSet(stackId, signal)
    this.#note(stackId, set?.resourceVersion)
    if (set) return { ...toParent(set), state: parseState(set), exists: true }
    return { ...toParent(emptyApplySet(this.parentAt(stackId))), exists: false }
  }

  /** The same without the effect that the next resync takes this version for known. */
  async peek(stackId: string, signal: AbortSignal): Promise<StackParent> {
    return toParent((await this.#readSet(stackId, signal)) ?? emptyApplySet(this.parentAt(stackId)))
  }

  #readSet(stackId: string, signal: AbortSignal): Promise<ApplySet | undefined> {
    const read = () => readApplySet(this.#deps, this.parentAt(stackId), this.#form(stackId), { signal })
    return retrying(this.#deps, READ_RETRY, read, signal)
  }

  /** All stacks of this agent with their inventories. */
  async all(signal: AbortSignal): Promise<{ stackId: string; parent: StackParent }[]> {
    const at = { namespace: this.#at.namespace, labels: { [OWNER_LABEL]: this.#at.agentId } }
    const { sets, unreadable } = await listApplySets(this.#deps, at, this.#form(''), { signal })
    this.#unreadable = unreadable
    const parents = sets.filter(({ name }) => name.startsWith(prefix))
    return parents.map((set) => ({ stackId: set.name.slice(prefix.length), parent: toParent(set) }))
  }

  /** Parents that the last `all` could not read: their members are unknown. */
  get unreadable(): readonly UnreadableParent[] {
    return this.#unreadable
  }

  /** The stored members of all stacks. */
  inventories(signal: AbortSignal): Promise<SavedInventories> {
    return retrying(this.#deps, READ_RETRY, () => readInventories(this.#deps, this.#at, this.#form(''), signal), signal)
  }

  /** Ids of the stacks of this agent in the cluster, by metadata. */
  async owned(signal: AbortSignal): Promise<Set<string>> {
    return new Set((await this.#versionsNow(signal)).keys())
  }

  /** Stacks whose parent is unchanged since this process wrote it. */
  async unchanged(signal: AbortSignal): Promise<Set<string>> {
    const now = await this.#versionsNow(signal)
    return new Set(
      [...now].filter(([stackId, version]) => version !== undefined && this.#versions.get(stackId) === version).map(([id]) => id),
    )
  }

  async #versionsNow(signal: AbortSignal): Promise<Map<string, string | undefined>> {
    const labelSelector = `${selectorOf({ [OWNER_LABEL]: this.#at.agentId })},${ID_LABEL}`
    const { items } = await this.#deps.kube.list(
      { apiVersion: 'v1', kind: 'Secret' },
      { namespace: this.#at.namespace, labelSelector, metadataOnly: true, signal },
    )
    const parents = items.map(({ metadata }) => metadata).filter(({ name }) => name.startsWith(prefix))
    return new Map(parents.map(({ name, resourceVersion }) => [name.slice(prefix.length), resourceVersion]))
  }

  #note(stackId: string, resourceVersion: string | undefined): void {
    if (resourceVersion === undefined) this.#versions.delete(stackId)
    else this.#versions.set(stackId, resourceVersion)
  }

  /** Stores members only and keeps the applied object. */
  async save(stackId: string, set: ApplySet, signal: AbortSignal): Promise<void> {
    const call = { fieldManager: FIELD_MANAGER }
    const saved = await retrying(this.#deps, API_RETRY, () => saveApplySet(this.#deps, set, this.#form(stackId), call), signal)
    this.#note(stackId, saved.metadata.resourceVersion)
  }

  /** Number of stacks whose manifest is too large to be stored. */
  get unsavedCount(): number {
    return this.#unsaved.size
  }

  async saveRevision(
    stackId: string,
    set: ApplySet,
    revision: { state: Omit<StackState, 'version'>; manifest: Buffer },
    signal: AbortSignal,
  ): Promise<void> {
    const fits = set.members.length * memberBytes + revision.manifest.length <= secretBytes
    const { [manifestFile]: _old, ...rest } = set.data
    const state = Buffer.from(JSON.stringify({ ...revision.state, version: stateVersion } satisfies StackState))
    const data = { ...rest, [stateFile]: state, ...(this.#at.savesManifests && fits ? { [manifestFile]: revision.manifest } : {}) }
    await this.save(stackId, { ...set, data }, signal)
    if (fits) this.#unsaved.delete(stackId)
    else this.#unsaved.add(stackId)
  }

  async remove(stackId: string): Promise<void> {
    await removeApplySet(this.#deps, this.parentAt(stackId))
    this.#note(stackId, undefined)
    this.#unsaved.delete(stackId)
  }

  parentAt(stackId: string): { name: string; namespace: string } {
    return { name: `${prefix}${stackId}`, namespace: this.#at.namespace }
  }

  #form(stackId: string): ParentForm {
    const labels = { [OWNER_LABEL]: this.#at.agentId, [STACK_LABEL]: stackId }
    return { tooling: this.#at.tooling, type: PARENT_TYPE, labels }
  }
}

/** Returns the set with this data beside its members; null removes an entry. */
export function withAttemptData(set: ApplySet, data: { pruneBase: PruneBase | null; generator: GeneratorRef | null }): ApplySet {
  const { [pruneBaseFile]: _pruneBase, [generatorFile]: _generator, ...rest } = set.data
  const pruneBase = data.pruneBase && { [pruneBaseFile]: Buffer.from(JSON.stringify(data.pruneBase)) }
  const saved = data.generator && { generator_id: data.generator.generatorId, name: data.generator.name }
  return { ...set, data: { ...rest, ...pruneBase, ...(saved && { [generatorFile]: Buffer.from(JSON.stringify(saved)) }) } }
}

function toParent(set: ApplySet): StackParent {
  const generator = SavedGenerator.safeParse(parseOrNull(set.data[generatorFile])).data
  return {
    set,
    state: readState(set),
    pruneBase: PruneBase.safeParse(parseOrNull(set.data[pruneBaseFile])).data ?? null,
    generator: generator ? { generatorId: generator.generator_id, name: generator.name } : null,
    manifest: set.data[manifestFile] ?? null,
  }
}

/** State of a later release must not be overwritten. */
function parseState(set: ApplySet): StackState | null {
  const state = readState(set)
  if (state === null || state.version <= stateVersion) return state
  throw new Terminal(
    `Secret ${set.namespace}/${set.name} was written by a later release of the agent (version ${state.version}): run that release, this one leaves it alone`,
  )
}

/** Unreadable data counts as absent. */
function readState(set: ApplySet): StackState | null {
  const parsed = StackState.safeParse(parseOrNull(set.data[stateFile]))
  return parsed.success ? parsed.data : null
}

function parseOrNull(bytes: Buffer | undefined): unknown {
  try {
    return bytes === undefined ? null : JSON.parse(bytes.toString('utf8'))
  } catch {
    return null
  }
}
