// Joins an agent by an invite in one transaction: uses the invite once and inserts the agent with the invite's labels and registrations. The
// agent created its PAK and sends only the hash. A repeated hash returns the same agent, because the first response may have been lost.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { PendingCommit, Sql } from '@brokkr/postgres'
import { insertAgent, targetNewAgent } from '../../agents/actions/agents.ts'
import * as agents from '../../agents/store/agents.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { type OwnPak, requireOwnPak, requireUniquePakHash } from '../../auth/actions/paks.ts'
import * as generators from '../../generators/store/generators.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { agentRegistered } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { type RequestedNames, resolveAgentNames } from '../rules/invited-names.ts'
import * as agentInvites from '../store.ts'

export interface JoinAgent extends RequestedNames {
  readonly inviteId: string
  readonly short_token: string
  readonly pak_hash: string
  readonly cluster_uid: string
  readonly agent_version: string
  readonly k8s_version: string
  readonly sent_at: string
  readonly from: Pick<Actor, 'address' | 'userAgent' | 'requestId'>
}
export interface JoinResult {
  readonly agent: Agent
  /** False if the agent joined before. */
  readonly isNew: boolean
}

export async function joinAgent(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: JoinAgent,
): Promise<JoinResult> {
  const pak = requireOwnPak(input)
  const result = await deps.sql.begin(async (sql): Promise<JoinResult | PendingCommit<JoinResult>> => {
    // Locked before any read: of two requests with one hash the second sees the result of the first.
    const invite = await agentInvites.lock(sql, { id: input.inviteId })
    if (invite === null || !invite.is_open) throw invalidToken()
    requireClockInSync(invite.now_ms, input.sent_at)
    const joinedAgent = await agents.findJoined(sql, { invite_id: invite.id, pak_hash: pak.hash })
    if (joinedAgent !== null) return { agent: joinedAgent, isNew: false }
    if ((await agentInvites.spend(sql, { id: invite.id })) === 0) throw invalidToken()
    const agent = await insert(sql, invite, { input, pak })
    await enqueueDeliveries(sql, deps.subscriptionCache, [agentRegistered(agent)])
    return sql.commitWith(
      (tx) => [targetNewAgent(tx, agent.id, invite)],
      () => ({ agent, isNew: true }),
    )
  })
  if (result.isNew) deps.wakeFeed()
  return result
}

type Invite = NonNullable<Awaited<ReturnType<typeof agentInvites.lock>>>

async function insert(sql: Sql, invite: Invite, { input, pak }: { input: JoinAgent; pak: OwnPak }): Promise<Agent> {
  const names = resolveAgentNames(invite, input)
  await requireUniquePakHash(sql, pak.hash, null)
  const id = uuid7()
  // A generator that was deleted after the invite was created does not prevent the join.
  const liveGenerators = await generators.holdLive(sql, { ids: invite.generator_ids })
  await insertAgent(
    sql,
    {
      id,
      ...names,
      status: 'ACTIVE',
      pak_hash: pak.hash,
      pak_short: pak.short,
      invited_generator_ids: invite.generator_ids,
      invite_id: invite.id,
      agent_version: input.agent_version,
    },
    { labels: invite.labels, annotations: invite.annotations, generatorIds: liveGenerators.map((one) => one.id) },
  )
  const actor: Actor = { ...input.from, kind: 'agent', id }
  const { cluster_uid, agent_version, k8s_version } = input
  await recordAuditEntry(sql, {
    actor,
    action: 'agent.created',
    resource: { type: 'agent', id },
    details: { ...names, invite_id: invite.id },
  })
  const details = { agent_id: id, ...names, short_token: pak.short, cluster_uid, agent_version, k8s_version }
  await recordAuditEntry(sql, { actor, action: 'invite.used', resource: { type: 'pak', id: invite.id }, details })
  return (await agents.get(sql, { id }))!
}

/** A used-up, revoked or expired token gets the same response as an unknown one. */
const invalidToken = (): ApiError =>
  new ApiError('unauthorized', 'join failed: the join token is no longer valid; ask an admin for a new invite')

const skewSecondsMax = 60

/** Rejects an agent with a wrong clock, because it would misread every deadline. */
function requireClockInSync(nowMs: number, sentAt: string): void {
  const aheadSeconds = Math.round((Date.parse(sentAt) - nowMs) / 1000)
  // The negated comparison also rejects NaN, the result of an unparseable time.
  if (Math.abs(aheadSeconds) <= skewSecondsMax) return
  const offset = `${Math.abs(aheadSeconds)} s ${aheadSeconds > 0 ? 'ahead of' : 'behind'}`
  const message = `the clock of the agent's machine is ${offset} the broker's: set it right (at most ${skewSecondsMax} s apart), then join again`
  throw new ApiError('clock_skew', message, { details: { skew_seconds: aheadSeconds, limit: skewSecondsMax } })
}
