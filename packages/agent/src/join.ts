// Joining: an agent without a key makes one, keeps it, and tells the broker its hash under the join token. A lost answer is
// repeated with the same hash, which the broker knows as the same join; and where the token has ended meanwhile, the key itself
// tells whether it was taken.
import { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { z } from 'zod'
import type { BrokerHttp } from './broker-http.ts'
import { type KeptKey, type KeyJudge, type KeyStore, partsOf } from './own-key.ts'

export interface JoinDeps {
  readonly store: KeyStore
  readonly broker: Pick<BrokerHttp, 'client'>
  readonly judge: Pick<KeyJudge, 'isValid'>
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
  try {
    Joined.parse(await deps.broker.client.join({ body }, { headers: { authorization: `Join ${form.token}` }, signal }))
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error
    if (!(await deps.judge.isValid(kept.pak))) throw deadToken(error)
  }
  const joined = { ...kept, sinceMs: deps.now() }
  await deps.store.save(joined)
  return joined
}

/** The broker says no more than 401; what it means is known here. */
const deadToken = (cause: ApiError): ApiError =>
  new ApiError(
    'unauthorized',
    'the join token is unknown, used up, revoked or expired. Ask an admin for another invite and put its token into the file of agent.join_token_file',
    { cause },
  )

async function makeKept(store: KeyStore): Promise<KeptKey> {
  const made = { pak: (await makePak()).pak, next: null, sinceMs: null }
  await store.save(made)
  return made
}
