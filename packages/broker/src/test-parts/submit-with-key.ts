// A submission with an Idempotency-Key as a program of its own, to be killed at each of its awaits.
import { openDatabase } from '@brokkr/postgres'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { crashProgram } from '@brokkr/testing/crash/crash-child.ts'
import { systemActor } from '../audit/rules.ts'
import { submitDeploymentObject } from '../deployments/actions/submit-deployment-object.ts'
import { createIdempotency, type KeyedCall } from '../http/request/idempotency.ts'
import { createSeal } from '../seal.ts'
import { freshSubscriptions } from '../webhooks/subscriptions/subscription-cache.ts'

export interface SubmitWithKey {
  readonly url: string
  readonly encryptionKey: string
  readonly stackId: string
  readonly call: KeyedCall
}

/** What the server does with such a call, on the given database. */
export async function submitWithKey(
  { encryptionKey, stackId, call }: SubmitWithKey,
  database: Pick<ReturnType<typeof openDatabase>, 'beginOuter' | 'query' | 'begin'>,
): Promise<{ status: number; body: string; isReplay: boolean }> {
  const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
  const effects = { wakeFeed: () => undefined, dropCredential: () => undefined, subscriptionCache: freshSubscriptions() }
  const idempotency = createIdempotency({ database, seal, metrics: createMetrics(), ...effects }, { seconds: 60, leaseSeconds: 60 })
  const input = { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, actor: systemActor }
  const answer = await idempotency.run(call, async (deps) => {
    const { sql, subscriptionCache, wakeFeed } = deps!
    const object = await submitDeploymentObject({ sql, seal, subscriptionCache, wakeFeed }, input)
    return { status: 201, headers: {}, body: JSON.stringify(object) }
  })
  return { status: answer.status, body: answer.body.toString(), isReplay: answer.headers['idempotency-replayed'] === 'true' }
}

if (import.meta.main) {
  await crashProgram(async (input: SubmitWithKey, underCrash) => {
    const database = openDatabase({ url: input.url, schema: 'public', poolSize: 2 })
    const done = await submitWithKey(input, underCrash(database, 'database'))
    await database.close()
    return done
  })
}
