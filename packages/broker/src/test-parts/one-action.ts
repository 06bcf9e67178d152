// One action as a program of its own, to be killed at every statement it sends, begin and commit among them, before the statement
// goes out and after its answer has come.
import { createHash } from 'node:crypto'
import { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import { type Database, openDatabase } from '@brokkr/postgres'
import { crashProgram, type UnderCrash } from '@brokkr/testing/crash/crash-child.ts'
import pg from 'pg'
import { rotateAgentPak } from '../agents/actions/rotate-agent-pak.ts'
import { systemActor } from '../audit/rules.ts'
import { submitDeploymentObject } from '../deployments/actions/submit-deployment-object.ts'
import { joinAgent } from '../invites/actions/join-agent.ts'
import { recordAgentEvents } from '../reports/actions/agent-events.ts'
import { createSeal } from '../seal.ts'
import { addStackLabel } from '../stacks/actions/label-stack.ts'
import { freshSubscriptions, type SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'

export interface OneAction {
  readonly url: string
  readonly action: keyof typeof actions
  readonly stackId: string
  /** Of a join the invite's id: its agent has none yet. */
  readonly agentId: string
  /** What the agent reports on. */
  readonly objectIds: readonly string[]
  readonly eventIds: readonly string[]
}
type Deps = { readonly sql: Database; readonly subscriptionCache: SubscriptionCache; readonly wakeFeed: () => void }

const actor = systemActor
const seal = createSeal([Buffer.alloc(32, 7)])

export const actions = {
  submit: (deps: Deps, { stackId }: OneAction) =>
    submitDeploymentObject(
      { ...deps, seal },
      { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, actor },
    ),
  /** The agent of the test carries this label: the pair begins with it. */
  retarget: (deps: Deps, { stackId, agentId }: OneAction) => addStackLabel(deps, { stackId, label: agentId, actor }),
  report: (deps: Deps, { agentId, objectIds, eventIds }: OneAction) =>
    recordAgentEvents(deps, {
      agentId,
      actor: { ...actor, kind: 'agent', id: agentId },
      events: objectIds.map((deployment_object_id, n) => {
        const event_type = n === 0 ? 'DELETED' : 'DEPLOY'
        return { ...NewAgentEvent.parse({ agent_id: agentId, deployment_object_id, event_type, status: 'SUCCESS' }), id: eventIds[n]! }
      }),
    }),
  join: (deps: Deps, { agentId: inviteId }: OneAction) =>
    joinAgent(deps, {
      inviteId,
      short_token: 'BRagentC',
      pak_hash: createHash('sha256').update(inviteId).digest('hex'),
      name: inviteId,
      cluster_uid: 'u',
      agent_version: '1',
      k8s_version: 'v1',
      sent_at: new Date().toISOString(),
      from: actor,
    }),
  rotate: (deps: Deps, { agentId }: OneAction) => rotateAgentPak(deps, { agentId, short_token: undefined, pak_hash: undefined, actor }),
}

/** Without a kill, in this process. */
export async function runAction(input: OneAction): Promise<void> {
  const sql = openDatabase({ url: input.url, schema: 'public', poolSize: 2, applicationName: 'one-action' })
  try {
    await actions[input.action]({ sql, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }, input)
  } finally {
    await sql.close()
  }
}

/** Counts below the pool, so that `begin` and `commit` are kill points too. */
function countStatements(underCrash: UnderCrash): void {
  const query: (...values: unknown[]) => unknown = Reflect.get(pg.Client.prototype, 'query')
  Reflect.set(pg.Client.prototype, 'query', function (this: pg.Client, ...values: unknown[]): unknown {
    const [config] = values as [string | { readonly name?: string; readonly text: string }]
    const name = typeof config === 'string' ? config : (config.name ?? config.text)
    return underCrash({ [name]: () => query.apply(this, values) }, 'wire')[name]!()
  })
}

if (import.meta.main) {
  await crashProgram(async (input: OneAction, underCrash) => {
    countStatements(underCrash)
    await runAction(input)
    // The caller has its answer.
    await underCrash({ answered: async () => undefined }, 'caller').answered()
  })
}
