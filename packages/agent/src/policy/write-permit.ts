// Decides whether this process may write to its cluster and delete. Checked right before each request leaves; a refused request is not
// sent.
import type { Kube } from '@brokkr/kube'

export type RefusalCode = 'standby' | 'frozen' | 'observe' | 'paused'
export interface WriteConditions {
  /** Whether this process holds the Lease now. */
  readonly isHolder: boolean
  readonly isFrozen: boolean
  readonly isOutdated: boolean
  /** Reports only (`agent.preset = observe`). */
  readonly isObserver: boolean
  /** Agent status of the broker, ACTIVE if it may write. */
  readonly status: string
}

export class WriteRefused extends Error {
  override readonly name = 'WriteRefused'
  readonly code: RefusalCode | 'outdated'

  constructor(code: RefusalCode | 'outdated') {
    super(texts[code])
    this.code = code
  }
}

const texts: Record<RefusalCode | 'outdated', string> = {
  standby: 'another process of this agent holds the Lease, or the API server is unreachable',
  frozen: 'the broker rejects the PAK of this agent',
  observe: 'the agent only observes its cluster (agent.preset)',
  paused: 'the agent is not ACTIVE',
  outdated: 'this agent release is outdated: deletions are disabled until it is upgraded',
}

/** Null: writing is permitted. Otherwise the first reason. */
export function toRefusalCode({ isHolder, isFrozen, isObserver, status }: WriteConditions): RefusalCode | null {
  if (!isHolder) return 'standby'
  if (isFrozen) return 'frozen'
  if (isObserver) return 'observe'
  return status === 'ACTIVE' ? null : 'paused'
}

export class WritePermit {
  readonly #view: () => WriteConditions

  constructor(view: () => WriteConditions) {
    this.#view = view
  }

  get refusal(): RefusalCode | null {
    return toRefusalCode(this.#view())
  }

  assertWrite(): void {
    const { refusal } = this
    if (refusal !== null) throw new WriteRefused(refusal)
  }

  assertDelete(): void {
    this.assertWrite()
    if (this.#view().isOutdated) throw new WriteRefused('outdated')
  }
}

/** The same client with a check of the permit before each write. Reads and watches pass. */
export function withWritePermit(kube: Kube, permit: Pick<WritePermit, 'assertWrite' | 'assertDelete'>): Kube {
  const guarded = <O extends { guard?: (() => void) | undefined }>(options: O | undefined, assert: () => void): O => {
    const own = options?.guard
    return {
      ...options,
      guard: () => {
        own?.()
        assert()
      },
    } as O
  }
  const write = () => permit.assertWrite()
  return {
    ...kube,
    create: (object, options) => kube.create(object, guarded(options, write)),
    replace: (object, options) => kube.replace(object, guarded(options, write)),
    patch: (ref, patch, options) => kube.patch(ref, patch, guarded(options, write)),
    apply: (object, options) => kube.apply(object, guarded(options, write)),
    delete: (ref, options) =>
      kube.delete(
        ref,
        guarded(options, () => permit.assertDelete()),
      ),
    with: (defaults) => withWritePermit(kube.with(defaults), permit),
  }
}
