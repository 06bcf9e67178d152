// Reasons why a flow is blocked: a rejected message without an errors sink, a connector that rejects the flow, or too many consecutive
// dead letters. The oldest reason is reported as `blocked`.
import type { Blocked } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface BlockReason {
  readonly stage: Blocked['stage']
  readonly connector: string
  readonly errorType: string
  readonly message: string
  /** In the form that `/skip` accepts; empty if no message is at fault. */
  readonly position: string
  /** For the log only. */
  readonly messageId?: string
}

export interface Block {
  update(reason: BlockReason): void
  end(): void
}

type ChangeListener = (blocked: Blocked | undefined, messageId: string | undefined) => void

export class BlockReasons {
  readonly #clock: Clock
  readonly #blocks = new Set<{ sinceMs: number; reason: BlockReason }>()
  readonly #onChange: ChangeListener

  constructor(clock: Clock, onChange: ChangeListener = () => {}) {
    this.#clock = clock
    this.#onChange = onChange
  }

  add(reason: BlockReason): Block {
    const block = { sinceMs: this.#clock.now(), reason }
    this.#blocks.add(block)
    this.#report()
    return {
      update: (next) => void (block.reason = next),
      end: () => {
        if (this.#blocks.delete(block)) this.#report()
      },
    }
  }

  get blocked(): Blocked | undefined {
    const [oldest] = this.#blocks
    if (oldest === undefined) return undefined
    const { messageId: _messageId, ...reason } = oldest.reason
    return { since: new Date(oldest.sinceMs).toISOString(), ...reason }
  }

  #report(): void {
    const [oldest] = this.#blocks
    this.#onChange(this.blocked, oldest?.reason.messageId)
  }
}
