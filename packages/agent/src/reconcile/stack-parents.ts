// The parent of each stack in the agent's own namespace: a Secret with the inventory, the revision in force and the manifest.
// Reading and writing goes through the ApplySet of packages/kube; this file knows what else stands in it.
import { type ApplySet, applySetId, emptyApplySet, ID_LABEL, type ParentForm } from '@brokkr/kube/applyset.ts'
import { listApplySets, readApplySet, removeApplySet, saveApplySet } from '@brokkr/kube/applyset-store.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { selectorOf } from '@brokkr/kube/object.ts'
import { API_RETRY, retrying } from '@brokkr/kube/retry.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { z } from 'zod'
import { FIELD_MANAGER, OWNER_LABEL, STACK_LABEL } from './marks.ts'
import type { Tenant } from './tenants.ts'

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
  /** How the revision's arrival was told; told again after a restart, under the same id. */
  event: z.object({ id: z.string(), type: z.string(), at: z.string() }),
})
/** The revision in force. */
export type StackState = z.output<typeof StackState>

/** How many members stood when a revision came: what it may drop is measured by that, however often it is tried. */
const Basis = z.object({ object_id: z.string(), standing: z.int() })
export type Basis = z.output<typeof Basis>
const SavedTenant = z.object({ generator_id: z.string(), name: z.string().nullable() })

export interface StackParent {
  readonly set: ApplySet
  /** Null: nothing was ever completely applied. */
  readonly state: StackState | null
  readonly basis: Basis | null
  readonly tenant: Tenant | null
  /** Of the revision in force, gzip; null where it is not kept. */
  readonly manifest: Buffer | null
}

const prefix = 'brokkr-stack-'
const stateFile = 'state.json'
const manifestFile = 'manifest.yaml.gz'
const basisFile = 'basis.json'
const tenantFile = 'tenant.json'
const secretBytes = 900 * 1024
const memberBytes = 64

export class StackParents {
  readonly #deps: { kube: Kube; clock: Clock }
  readonly #at: { namespace: string; agentId: string; tooling: string; savesManifests: boolean }

  readonly #unsaved = new Set<string>()
  /** Of each parent, as we last read or wrote it. */
  readonly #versions = new Map<string, string>()

  constructor(deps: { kube: Kube; clock: Clock }, at: { namespace: string; agentId: string; tooling: string; savesManifests: boolean }) {
    this.#deps = deps
    this.#at = at
  }

  setId(stackId: string): string {
    return applySetId(this.parentAt(stackId))
  }

  /** An empty set when there is no parent yet. Throws ForeignApplySet for one that is not ours. */
  async read(stackId: string, signal: AbortSignal): Promise<StackParent & { readonly exists: boolean }> {
    const set = await readApplySet(this.#deps, this.parentAt(stackId), this.#form(stackId), { signal })
    this.#note(stackId, set?.resourceVersion)
    if (set) return { ...parentOf(set), state: stateOf(set), exists: true }
    return { ...parentOf(emptyApplySet(this.parentAt(stackId))), exists: false }
  }

  /** Every stack of ours with its inventory. */
  async all(signal: AbortSignal): Promise<{ stackId: string; parent: StackParent }[]> {
    const at = { namespace: this.#at.namespace, labels: { [OWNER_LABEL]: this.#at.agentId } }
    const { sets } = await listApplySets(this.#deps, at, this.#form(''), { signal })
    const parents = sets.filter(({ name }) => name.startsWith(prefix))
    return parents.map((set) => ({ stackId: set.name.slice(prefix.length), parent: parentOf(set) }))
  }

  /** Only their ids, read by metadata: what stands in the cluster under our name. */
  async owned(signal: AbortSignal): Promise<Set<string>> {
    return new Set((await this.#versionsNow(signal)).keys())
  }

  /** Those that nobody has touched since this process did. */
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

  /** Members only; the revision in force stays what it was. */
  async save(stackId: string, set: ApplySet, signal: AbortSignal): Promise<void> {
    const call = { fieldManager: FIELD_MANAGER }
    const saved = await retrying(this.#deps, API_RETRY, () => saveApplySet(this.#deps, set, this.#form(stackId), call), signal)
    this.#note(stackId, saved.metadata.resourceVersion)
  }

  /** Stacks whose manifest is too large to be kept along. */
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
    return { tooling: this.#at.tooling, type: 'brokkr.io/stack', labels }
  }
}

/** The set with these notes beside its members; null takes one off. */
export function withNotes(set: ApplySet, notes: { basis: Basis | null; tenant: Tenant | null }): ApplySet {
  const { [basisFile]: _basis, [tenantFile]: _tenant, ...rest } = set.data
  const basis = notes.basis && { [basisFile]: Buffer.from(JSON.stringify(notes.basis)) }
  const saved = notes.tenant && { generator_id: notes.tenant.generatorId, name: notes.tenant.name }
  return { ...set, data: { ...rest, ...basis, ...(saved && { [tenantFile]: Buffer.from(JSON.stringify(saved)) }) } }
}

function parentOf(set: ApplySet): StackParent {
  const tenant = SavedTenant.safeParse(parseOrNull(set.data[tenantFile])).data
  return {
    set,
    state: readState(set),
    basis: Basis.safeParse(parseOrNull(set.data[basisFile])).data ?? null,
    tenant: tenant ? { generatorId: tenant.generator_id, name: tenant.name } : null,
    manifest: set.data[manifestFile] ?? null,
  }
}

/** What a later release wrote is not ours to rewrite. */
function stateOf(set: ApplySet): StackState | null {
  const state = readState(set)
  if (state === null || state.version <= stateVersion) return state
  throw new Terminal(
    `Secret ${set.namespace}/${set.name} was written by a later release of the agent (version ${state.version}): run that release, this one leaves it alone`,
  )
}

/** Unreadable counts as absent. */
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
