// Joining: an agent without a PAK creates one, stores it, and sends its hash with the join token. A lost response is repeated with the
// same hash, which is the same join for the broker. If the token has expired meanwhile, the PAK itself shows whether the join succeeded.
import { Agent } from '@brokkr/contract/agents/agent.ts'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { z } from 'zod'
import type { BrokerHttp } from '../connection/broker-http.ts'
import { type PakProbe, type PakStore, parsePak, type StoredPak } from './own-pak.ts'

export interface JoinDeps {
  readonly store: PakStore
  readonly broker: Pick<BrokerHttp, 'client'>
  readonly probe: Pick<PakProbe, 'isValid'>
  readonly now: () => number
}
export interface JoinRequest {
  readonly token: string
  readonly name: string
  readonly clusterName: string
  /** uid of namespace kube-system, which identifies the cluster. */
  readonly clusterUid: string
  readonly agentVersion: string
  readonly k8sVersion: string
}
const Joined = z.object({ agent: Agent.pick({ id: true }) })

/** Returns the PAK to use. Throws ApiError for a refusal: 401, 409, 422. */
export async function join(deps: JoinDeps, request: JoinRequest, signal: AbortSignal): Promise<StoredPak> {
  const stored = (await deps.store.read()) ?? (await createPak(deps.store))
  if (stored.sinceMs !== null) return stored
  const { short, hash } = await parsePak(stored.pak)
  const body = {
    short_token: short,
    pak_hash: hash,
    name: request.name,
    cluster_name: request.clusterName,
    cluster_uid: request.clusterUid,
    agent_version: request.agentVersion,
    k8s_version: request.k8sVersion,
    sent_at: new Date(deps.now()).toISOString(),
  }
  try {
    Joined.parse(await deps.broker.client.join({ body }, { headers: { authorization: `Join ${request.token}` }, signal }))
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error
    if (!(await deps.probe.isValid(stored.pak))) throw toDeadTokenError(error)
  }
  const joined = { ...stored, sinceMs: deps.now() }
  await deps.store.save(joined)
  return joined
}

/** The broker responds only 401; the message explains it. */
const toDeadTokenError = (cause: ApiError): ApiError =>
  new ApiError(
    'unauthorized',
    'the join token is unknown, used up, revoked or expired. Ask an admin for another invite and put its token into the file of agent.join_token_file',
    { cause },
  )

async function createPak(store: PakStore): Promise<StoredPak> {
  const stored = { pak: (await generatePak()).pak, next: null, sinceMs: null }
  await store.save(stored)
  return stored
}
