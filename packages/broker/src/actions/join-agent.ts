// Joining: whoever shows a join token becomes an agent, with what the invite gives, and spends one use of it: one transaction. The
// agent made its key and tells the hash alone; the same hash again is the same join, since the first answer may have been lost.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { type AskedNames, invitedNames } from '../domain/invited-names.ts'
import { type OwnKey, requireOwnKey } from '../domain/own-key.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { agentRegistered } from '../domain/webhook-events.ts'
import * as agentInvites from '../store/agent-invites.ts'
import * as agents from '../store/agents.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { insertAgent } from './insert-agent.ts'
import { refuseKnownHash } from './refuse-known-hash.ts'
import { lockTargeting } from './retarget.ts'

export interface JoinAgent extends AskedNames {
  readonly inviteId: string
  readonly short_token: string
  readonly pak_hash: string
  readonly cluster_uid: string
  readonly agent_version: string
  readonly k8s_version: string
  readonly sent_at: string
  readonly from: Pick<Actor, 'address' | 'userAgent' | 'requestId'>
}
export interface Joined {
  readonly agent: Agent
  /** False: it had joined before. */
  readonly isNew: boolean
}

export async function joinAgent(deps: { sql: Sql; hooks: Subscriptions; wakeFeed: () => void }, input: JoinAgent): Promise<Joined> {
  const key = requireOwnKey(input)
  const joined = await deps.sql.begin(async (sql): Promise<Joined> => {
    // Before anything is read: of two requests with one hash the second sees what the first did.
    const invite = await agentInvites.lock(sql, { id: input.inviteId })
    if (invite === null || !invite.is_open) throw refused()
    refuseSkew(invite.now_ms, input.sent_at)
    const before = await agents.joinedBy(sql, { invite_id: invite.id, pak_hash: key.hash })
    if (before !== null) return { agent: before, isNew: false }
    if ((await agentInvites.spend(sql, { id: invite.id })) === 0) throw refused()
    const agent = await insert(sql, invite, { input, key })
    await enqueue(sql, deps.hooks, [agentRegistered(agent)])
    return { agent, isNew: true }
  })
  if (joined.isNew) deps.wakeFeed()
  return joined
}

type Invite = NonNullable<Awaited<ReturnType<typeof agentInvites.lock>>>

async function insert(sql: Sql, invite: Invite, { input, key }: { input: JoinAgent; key: OwnKey }): Promise<Agent> {
  const names = invitedNames(invite, input)
  await refuseKnownHash(sql, key.hash, null)
  await lockTargeting(sql)
  const id = uuid7()
  // A generator that went meanwhile is no reason to keep the cluster out.
  const live = await generators.liveAmong(sql, { ids: invite.generator_ids })
  await insertAgent(
    sql,
    {
      id,
      ...names,
      status: 'ACTIVE',
      pak_hash: key.hash,
      pak_short: key.short,
      invited_generator_ids: invite.generator_ids,
      invite_id: invite.id,
      agent_version: input.agent_version,
    },
    { labels: invite.labels, annotations: invite.annotations, generatorIds: live.map((one) => one.id) },
  )
  const by: Actor = { ...input.from, kind: 'agent', id }
  const { cluster_uid, agent_version, k8s_version } = input
  await recordDeed(sql, { by, action: 'agent.created', on: { type: 'agent', id }, details: { ...names, invite_id: invite.id } })
  const details = { agent_id: id, ...names, short_token: key.short, cluster_uid, agent_version, k8s_version }
  await recordDeed(sql, { by, action: 'invite.used', on: { type: 'pak', id: invite.id }, details })
  return (await agents.get(sql, { id }))!
}

/** Used up, revoked, expired: from outside all look like a token that never was. */
const refused = (): ApiError => new ApiError('unauthorized', 'the join token opens nothing any more')

const skewSecondsMax = 60

/** An agent whose clock is wrong would read every deadline wrong: better told now than found out later. */
function refuseSkew(nowMs: number, sentAt: string): void {
  const aheadSeconds = Math.round((Date.parse(sentAt) - nowMs) / 1000)
  // Written so that a time nobody can read does not pass.
  if (Math.abs(aheadSeconds) <= skewSecondsMax) return
  const by = `${Math.abs(aheadSeconds)} s ${aheadSeconds > 0 ? 'ahead of' : 'behind'}`
  const message = `the clock of the agent's machine is ${by} the broker's: set it right (at most ${skewSecondsMax} s apart), then join again`
  throw new ApiError('clock_skew', message, { details: { skew_seconds: aheadSeconds, limit: skewSecondsMax } })
}
