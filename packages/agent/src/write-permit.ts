// May this process write to its cluster right now, and may it delete? One answer for everybody who does, asked right before each
// request leaves. What is refused here was never sent.
import type { Kube } from '@brokkr/kube/kube.ts'

export type RefusalCode = 'standby' | 'frozen' | 'observe' | 'paused'
export interface PermitView {
  /** Whether the Lease is ours at this very moment. */
  readonly isHolder: boolean
  readonly isFrozen: boolean
  readonly isOutdated: boolean
  /** Set up to look and to tell, never to write (`agent.preset = observe`). */
  readonly isObserver: boolean
  /** ACTIVE, or what the broker was last told to call us. */
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
  standby: 'another process of this agent holds the Lease, or nobody could be asked',
  frozen: 'the broker refuses the key of this agent',
  observe: 'the agent only observes its cluster (agent.preset)',
  paused: 'the agent is not ACTIVE',
  outdated: 'the broker asks for a newer agent, and until then nothing is deleted',
}

/** Null: write. The first reason that holds. */
export function refusalOf({ isHolder, isFrozen, isObserver, status }: PermitView): RefusalCode | null {
  if (!isHolder) return 'standby'
  if (isFrozen) return 'frozen'
  if (isObserver) return 'observe'
  return status === 'ACTIVE' ? null : 'paused'
}

export class WritePermit {
  readonly #view: () => PermitView

  constructor(view: () => PermitView) {
    this.#view = view
  }

  get refusal(): RefusalCode | null {
    return refusalOf(this.#view())
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

/** The same client, whose writes are judged at the moment they leave. Reads and watches pass. */
export function permittedKube(kube: Kube, permit: Pick<WritePermit, 'assertWrite' | 'assertDelete'>): Kube {
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
    with: (defaults) => permittedKube(kube.with(defaults), permit),
  }
}
