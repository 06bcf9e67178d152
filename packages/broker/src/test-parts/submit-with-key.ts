// A submission with an Idempotency-Key as a program of its own, to be killed at each of its awaits.
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { crashProgram } from '@brokkr/testing/crash-child.ts'
import { submitDeploymentObject } from '../actions/submit-deployment-object.ts'
import { systemActor } from '../domain/actor.ts'
import { createIdempotency, type KeyedCall } from '../http/idempotency.ts'
import { createSeal } from '../seal.ts'
import { openDatabase } from '../store/db.ts'
import { freshSubscriptions } from '../webhooks/subscriptions.ts'

export interface SubmitWithKey {
  readonly url: string
  readonly encryptionKey: string
  readonly stackId: string
  readonly call: KeyedCall
}

/** What the server does with such a call, on the given database. */
export async function submitWithKey(
  { encryptionKey, stackId, call }: SubmitWithKey,
  database: Pick<ReturnType<typeof openDatabase>, 'beginOuter'>,
): Promise<{ status: number; body: string; isReplay: boolean }> {
  const seal = createSeal([Buffer.from(encryptionKey, 'hex')])
  const idempotency = createIdempotency({ database, seal, metrics: createMetrics(), wakeFeed: () => undefined }, { seconds: 60 })
  const input = { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, by: systemActor }
  const answer = await idempotency.run(call, async ({ sql, wakeFeed }) => {
    const object = await submitDeploymentObject({ sql, seal, hooks: freshSubscriptions(), wakeFeed }, input)
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
