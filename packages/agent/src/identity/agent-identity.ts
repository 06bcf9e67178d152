// The agent's identity and epoch as last confirmed by the broker, stored in the cluster: an agent that starts while the broker is
// unreachable uses it.
import type { AgentId } from '@brokkr/contract/wire.ts'
import { type Kube, textAt } from '@brokkr/kube'
import { z } from 'zod'

const Facts = z.object({
  agent_id: z.string(),
  agent_name: z.string(),
  cluster_name: z.string(),
  status: z.string(),
  /** Epoch that was last synchronized. */
  epoch: z.string().nullable().default(null),
  /** Boot id of the broker's database server at the last snapshot. */
  boot: z.string().nullable().default(null),
  /** Stacks that existed here when the epoch began and that it did not know. */
  orphans: z.array(z.string()).default([]),
})
export type AgentIdentity = z.output<typeof Facts> & { readonly agent_id: AgentId }

const secret = { apiVersion: 'v1', kind: 'Secret', name: 'brokkr-agent-state' } as const
const entry = 'identity.json'

export class AgentIdentityStore {
  readonly #deps: { kube: Kube }
  readonly #namespace: string
  readonly #name: Pick<AgentIdentity, 'agent_name' | 'cluster_name'>
  readonly #signal: AbortSignal
  #facts: AgentIdentity | null = null
  #saving: Promise<void> = Promise.resolve()

  constructor(
    deps: { kube: Kube },
    at: { namespace: string; name: Pick<AgentIdentity, 'agent_name' | 'cluster_name'>; signal: AbortSignal },
  ) {
    this.#deps = deps
    this.#namespace = at.namespace
    this.#name = at.name
    this.#signal = at.signal
  }

  /** Null: not stored yet, or stored for an agent of another name. */
  get facts(): AgentIdentity | null {
    return this.#facts
  }

  async read(): Promise<AgentIdentity | null> {
    const stored = await this.#deps.kube.find({ ...secret, namespace: this.#namespace }, { signal: this.#signal })
    const parsed = Facts.safeParse(jsonOrNull(Buffer.from(textAt(stored, 'data', entry) ?? '', 'base64').toString('utf8')))
    const isOurs = parsed.data?.agent_name === this.#name.agent_name && parsed.data.cluster_name === this.#name.cluster_name
    this.#facts = isOurs ? (parsed.data as AgentIdentity) : null
    return this.#facts
  }

  /** Writes are serialized, and an unchanged identity is not written. The Secret exists already with the hash key. */
  save(change: Partial<AgentIdentity>): Promise<void> {
    const attempt = this.#saving.catch(() => undefined).then(() => this.#save(change))
    this.#saving = attempt
    return attempt
  }

  async #save(change: Partial<AgentIdentity>): Promise<void> {
    const before = this.#facts ?? { agent_id: '' as AgentId, status: 'ACTIVE', epoch: null, boot: null, orphans: [] }
    const facts: AgentIdentity = { ...before, ...change, ...this.#name }
    if (JSON.stringify(facts) === JSON.stringify(this.#facts)) return
    const data = { [entry]: Buffer.from(JSON.stringify(facts)).toString('base64') }
    const ref = { ...secret, namespace: this.#namespace }
    await this.#deps.kube.patch(ref, { type: 'merge', body: { data } }, { fieldManager: 'brokkr-agent', signal: this.#signal })
    this.#facts = facts
  }
}

function jsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
