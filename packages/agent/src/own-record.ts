// Who we are, as the broker last said, and which history of it we followed, kept in the cluster: an agent that starts while the
// broker is away goes on with it.
import type { AgentId } from '@brokkr/contract/wire.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { z } from 'zod'

const Facts = z.object({
  agent_id: z.string(),
  agent_name: z.string(),
  cluster_name: z.string(),
  status: z.string(),
  /** History of the broker that was followed last. */
  epoch: z.string().nullable().default(null),
  /** Of the broker's database server, as the last list came. */
  boot: z.string().nullable().default(null),
  /** Stacks that stood here when that history began, and that it did not know. */
  orphans: z.array(z.string()).default([]),
})
export type OwnFacts = z.output<typeof Facts> & { readonly agent_id: AgentId }

const secret = { apiVersion: 'v1', kind: 'Secret', name: 'brokkr-agent-state' } as const
const entry = 'identity.json'

export class OwnRecord {
  readonly #deps: { kube: Kube }
  readonly #namespace: string
  readonly #name: Pick<OwnFacts, 'agent_name' | 'cluster_name'>
  readonly #signal: AbortSignal
  #facts: OwnFacts | null = null
  #saving: Promise<void> = Promise.resolve()

  constructor(deps: { kube: Kube }, at: { namespace: string; name: Pick<OwnFacts, 'agent_name' | 'cluster_name'>; signal: AbortSignal }) {
    this.#deps = deps
    this.#namespace = at.namespace
    this.#name = at.name
    this.#signal = at.signal
  }

  /** Null: nobody has said yet, or it was said of an agent of another name. */
  get facts(): OwnFacts | null {
    return this.#facts
  }

  async read(): Promise<OwnFacts | null> {
    const found = await this.#deps.kube.find({ ...secret, namespace: this.#namespace }, { signal: this.#signal })
    const parsed = Facts.safeParse(jsonOrNull(Buffer.from(textAt(found, 'data', entry) ?? '', 'base64').toString('utf8')))
    const isOurs = parsed.data?.agent_name === this.#name.agent_name && parsed.data.cluster_name === this.#name.cluster_name
    this.#facts = isOurs ? (parsed.data as OwnFacts) : null
    return this.#facts
  }

  /** One write after the other; the same again is none. The Secret exists by then: the key of the hashes is in it. */
  save(change: Partial<OwnFacts>): Promise<void> {
    const attempt = this.#saving.catch(() => undefined).then(() => this.#save(change))
    this.#saving = attempt
    return attempt
  }

  async #save(change: Partial<OwnFacts>): Promise<void> {
    const before = this.#facts ?? { agent_id: '' as AgentId, status: 'ACTIVE', epoch: null, boot: null, orphans: [] }
    const facts: OwnFacts = { ...before, ...change, ...this.#name }
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
