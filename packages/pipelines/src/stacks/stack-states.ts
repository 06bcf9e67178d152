// The stacks that Pipelines use, read from their brokers at an interval and on request. A stack that cannot be read is indefinite.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { SecretContent } from '../strategies/strategy.ts'
import { BrokerClient } from './broker-client.ts'
import type { BrokerClients } from './broker-clients.ts'
import type { StackState } from './read-stack.ts'
import type { StackAccess } from './stack-access.ts'

export interface StackUse {
  readonly access: StackAccess
  readonly stack: string
}

export type StackLookup =
  | { readonly state: 'present'; readonly value: StackState }
  | { readonly state: 'absent' }
  | { readonly state: 'indefinite'; readonly problem: 'unreachable' | 'not-synced'; readonly error: string }

export interface StackStatesDeps {
  readonly clock: Clock
  readonly log: Log
  readonly brokers: BrokerClients
  readonly readSecret: (at: { namespace: string; name: string }, signal: AbortSignal) => Promise<SecretContent | null>
  readonly onChange: (pipelineKey: string) => void
}

interface Entry {
  readonly use: StackUse
  readonly pipelines: Set<string>
  /** Undefined: not read yet. */
  value: StackState | 'absent' | undefined
  readAtMs: number
  error: string | null
  text: string
}

const READ_LIMIT_MS = 15_000

export class StackStates {
  readonly #deps: StackStatesDeps
  readonly #times: { readonly pollMs: number; readonly staleMs: number }
  readonly #loop: RunningLoop
  #entries = new Map<string, Entry>()

  constructor(deps: StackStatesDeps, times: { pollMs: number; staleMs: number }) {
    this.#deps = deps
    this.#times = times
    this.#loop = startLoop(deps, { name: 'pipelines-stacks', everyMs: times.pollMs, run: () => this.#readAll() })
  }

  /** Brings the set to these stacks of each Pipeline. */
  drive(uses: Iterable<StackUse & { readonly pipelineKey: string }>): void {
    const entries = new Map<string, Entry>()
    let hasNew = false
    for (const use of uses) {
      const key = keyOf(use)
      const before = entries.get(key) ?? this.#entries.get(key)
      const entry = before ?? { use, pipelines: new Set(), value: undefined, readAtMs: 0, error: null, text: '' }
      if (!entries.has(key)) entry.pipelines.clear()
      entry.pipelines.add(use.pipelineKey)
      entries.set(key, entry)
      hasNew ||= before === undefined
    }
    this.#entries = entries
    if (hasNew) this.#loop.wake()
  }

  find(use: StackUse): StackLookup {
    const entry = this.#entries.get(keyOf(use))
    if (entry === undefined || (entry.value === undefined && entry.error === null))
      return { state: 'indefinite', problem: 'not-synced', error: `stack ${use.stack}: not read yet` }
    const isStale = this.#deps.clock.monotonicMs() - entry.readAtMs > this.#times.staleMs
    if (entry.value === undefined || (isStale && entry.error !== null))
      return { state: 'indefinite', problem: 'unreachable', error: `stack ${use.stack}: ${entry.error}` }
    return entry.value === 'absent' ? { state: 'absent' } : { state: 'present', value: entry.value }
  }

  /** Reads again soon: after a submission. */
  wake(): void {
    this.#loop.wake()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  async #readAll(): Promise<void> {
    await Promise.all([...this.#entries.values()].map((entry) => this.#read(entry)))
  }

  async #read(entry: Entry): Promise<void> {
    try {
      entry.value = await this.#readState(entry.use)
      entry.readAtMs = this.#deps.clock.monotonicMs()
      entry.error = null
    } catch (error) {
      entry.error = redactText(errorText(error))
    }
    const text = JSON.stringify([entry.value, entry.error])
    if (text === entry.text) return
    entry.text = text
    for (const pipeline of entry.pipelines) this.#deps.onChange(pipeline)
  }

  async #readState({ access, stack }: StackUse): Promise<StackState | 'absent'> {
    const signal = AbortSignal.timeout(READ_LIMIT_MS)
    const at = { namespace: access.namespace, name: access.secretName }
    const client = this.#deps.brokers.open(access, await this.#deps.readSecret(at, signal))
    if (!(client instanceof BrokerClient)) throw new Error(client.error)
    const head = await client.readHead(stack, { content: access.mode === 'Marker' }, signal)
    if (head === null || head.object === null) return 'absent'
    const agents = await client.readAgents(head.stackId, signal)
    const { sequence_id, yaml_checksum, yaml_content } = head.object
    return {
      head: { sequence_id, yaml_checksum, yaml_content },
      agents: agents.map(({ agent_name, sequence_id: reported, desired_sequence_id, phase, health, stale }) => ({
        agent_name,
        sequence_id: reported,
        desired_sequence_id,
        phase,
        health,
        stale,
      })),
    }
  }
}

const keyOf = ({ access, stack }: StackUse): string => [access.url, access.namespace, access.secretName, access.mode, stack].join('|')
