// Joining: an agent without a key makes one, keeps it, and tells the broker its hash under the join token. A lost answer is
// repeated with the same hash, which the broker knows as the same join.

import { Agent } from '@brokkr/contract/agent.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { z } from 'zod'
import type { BrokerHttp } from './broker-http.ts'
import { type KeptKey, type KeyStore, partsOf } from './own-key.ts'

export interface JoinDeps {
  readonly store: KeyStore
  readonly broker: Pick<BrokerHttp, 'post'>
  readonly now: () => number
}
export interface JoinForm {
  readonly token: string
  readonly name: string
  readonly clusterName: string
  /** Of namespace kube-system: names the cluster for ever. */
  readonly clusterUid: string
  readonly agentVersion: string
  readonly k8sVersion: string
}
const Joined = z.object({ agent: Agent.pick({ id: true }) })

/** The key to be used from now on. Throws ApiError for a no: 401, 409, 422. */
export async function join(deps: JoinDeps, form: JoinForm, signal: AbortSignal): Promise<KeptKey> {
  const kept = (await deps.store.read()) ?? (await makeKept(deps.store))
  if (kept.sinceMs !== null) return kept
  const { short, hash } = await partsOf(kept.pak)
  const body = {
    short_token: short,
    pak_hash: hash,
    name: form.name,
    cluster_name: form.clusterName,
    cluster_uid: form.clusterUid,
    agent_version: form.agentVersion,
    k8s_version: form.k8sVersion,
    sent_at: new Date(deps.now()).toISOString(),
  }
  Joined.parse(await deps.broker.post('/api/v1/join', { authorization: `Join ${form.token}`, body, signal }))
  const joined = { ...kept, sinceMs: deps.now() }
  await deps.store.save(joined)
  return joined
}

async function makeKept(store: KeyStore): Promise<KeptKey> {
  const made = { pak: (await makePak()).pak, next: null, sinceMs: null }
  await store.save(made)
  return made
}
