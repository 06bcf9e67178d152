// A real Kafka for tests: one server per run, topics by unguessable names. Where a test must kill it, one of its own.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type KafkaAddress, type KafkaServer, type KafkaServerOptions, startKafka } from './kafka-server.ts'
import { callServers } from './owner/client.ts'

export type { KafkaAddress, KafkaServer }

/** The shared server. Topics are not created automatically, as in production. */
export function kafka(): Promise<KafkaAddress> {
  return callServers('kafka', {})
}

/** A name of a topic or a group that no other test has. */
export function uniqueName(prefix = 'test'): string {
  return `${prefix}-${randomBytes(6).toString('hex')}`
}

/** A server of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privateKafka(options: Pick<KafkaServerOptions, 'front' | 'settings'> = {}): Promise<KafkaServer> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const server = await startKafka({ ...options, dir: join(folder, 'kafka') })
  const noted = () => callServers('loan.note', { folder, processes: [server.process] })
  await noted()
  return Object.assign(Object.create(server) as KafkaServer, {
    start: async () => {
      await server.start()
      await noted()
    },
  })
}
