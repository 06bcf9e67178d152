// One action as a program of its own, to be killed at every statement it sends, begin and commit among them, before the statement
// goes out and after its answer has come.
import { createHash } from 'node:crypto'
import { NewAgentEvent } from '@brokkr/contract/event.ts'
import { crashProgram, type UnderCrash } from '@brokkr/testing/crash-child.ts'
import pg from 'pg'
import { joinAgent } from '../actions/join-agent.ts'
import { addStackLabel } from '../actions/label-stack.ts'
import { recordAgentEvents } from '../actions/record-agent-events.ts'
import { rotateAgentPak } from '../actions/rotate-agent-pak.ts'
import { submitDeploymentObject } from '../actions/submit-deployment-object.ts'
import { systemActor } from '../domain/actor.ts'
import { createSeal } from '../seal.ts'
import { type Database, openDatabase } from '../store/db.ts'
import { NamedQuery } from '../store/named-query.ts'
import { freshSubscriptions, type Subscriptions } from '../webhooks/subscriptions.ts'

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
type Deps = { readonly sql: Database; readonly hooks: Subscriptions; readonly wakeFeed: () => void }

const by = systemActor
const seal = createSeal([Buffer.alloc(32, 7)])

export const actions = {
  submit: (deps: Deps, { stackId }: OneAction) =>
    submitDeploymentObject({ ...deps, seal }, { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, by }),
  /** The agent of the test carries this label: the pair begins with it. */
  retarget: (deps: Deps, { stackId, agentId }: OneAction) => addStackLabel(deps, { stackId, label: agentId, by }),
  report: (deps: Deps, { agentId, objectIds, eventIds }: OneAction) =>
    recordAgentEvents(deps, {
      agentId,
      by: { ...by, kind: 'agent', id: agentId },
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
      from: by,
    }),
  rotate: (deps: Deps, { agentId }: OneAction) => rotateAgentPak(deps, { agentId, short_token: undefined, pak_hash: undefined, by }),
}

/** Without a kill, in this process. */
export async function runAction(input: OneAction): Promise<void> {
  const sql = openDatabase({ url: input.url, schema: 'public', poolSize: 2, applicationName: 'one-action' })
  try {
    await actions[input.action]({ sql, hooks: freshSubscriptions(), wakeFeed: () => undefined }, input)
  } finally {
    await sql.close()
  }
}

/** Below the pool, so that what opens and ends a transaction is counted like what stands in it. */
function countStatements(underCrash: UnderCrash): void {
  const counted = (name: string, send: () => unknown): unknown => underCrash({ [name]: send }, 'wire')[name]!()
  const run: (this: NamedQuery, ...values: Parameters<NamedQuery['run']>) => unknown = Reflect.get(NamedQuery.prototype, 'run')
  Reflect.set(NamedQuery.prototype, 'run', function (this: NamedQuery, ...values: Parameters<NamedQuery['run']>): unknown {
    return counted(this.name, () => run.apply(this, values))
  })
  const query: (...values: unknown[]) => unknown = Reflect.get(pg.Client.prototype, 'query')
  Reflect.set(pg.Client.prototype, 'query', function (this: pg.Client, ...values: unknown[]): unknown {
    const [text] = values
    return typeof text === 'string' ? counted(text, () => query.apply(this, values)) : query.apply(this, values)
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
