// Options of all Kafka clients of a flow: brokers, TLS, SASL, checked addresses and timeouts. Only connectors/kafka uses the library.
import { randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import type { SecurityProtocol } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { Admin, type BaseOptions, type ClusterMetadata } from '@platformatic/kafka'
import { checkHosts } from '../allowed-hosts.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import { type TlsSettings, tlsOptions } from '../tls-options.ts'
import { type KafkaFailureContext, toKafkaError } from './errors.ts'

/** Settings that source and sink share. */
export interface KafkaPlace {
  readonly brokers?: readonly string[] | undefined
  readonly topic?: string | undefined
  readonly securityProtocol: SecurityProtocol
  readonly tls?: TlsSettings | undefined
  readonly sasl?: SaslSettings | undefined
}
export interface SaslSettings {
  readonly mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512'
  readonly username?: string | undefined
  readonly password?: string | undefined
}

const defaultPort = 9092
const mechanisms = { plain: 'PLAIN', 'scram-sha-256': 'SCRAM-SHA-256', 'scram-sha-512': 'SCRAM-SHA-512' } as const

/** The library's retries multiply, so it retries twice and briefly; the pipeline waits for longer outages. */
export async function kafkaOptions(place: KafkaPlace, context: ConnectorContext): Promise<BaseOptions> {
  const brokers = (place.brokers ?? []).map(parseBroker)
  await checkHosts(
    context,
    brokers.map(({ host }) => host),
  )
  const isTls = place.securityProtocol.endsWith('SSL')
  return {
    clientId: `brokkr-${context.flow.namespace}-${context.flow.name}-${randomUUID().slice(0, 8)}`,
    bootstrapBrokers: brokers,
    connectTimeout: 10_000,
    timeout: 30_000,
    retries: 2,
    retryDelay: 200,
    metadataMaxAge: 60_000,
    ...(isTls
      ? { tls: await tlsOptions(place.tls ?? { insecureSkipVerify: false }), tlsServerName: !brokers.some(({ host }) => isIP(host) !== 0) }
      : {}),
    ...(place.sasl === undefined ? {} : { sasl: saslOptions(place.sasl) }),
  }
}

/** `host:port`, `[address]:port` or `host`. */
function parseBroker(text: string): { host: string; port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text.trim())
  const host = match?.[1] ?? match?.[2]
  if (host === undefined)
    throw new ConnectorError({ class: 'config', type: 'connection_error' }, `"${text}" is not a broker address (host:port)`)
  return { host, port: Number(match?.[3] ?? defaultPort) }
}

function saslOptions(sasl: SaslSettings): NonNullable<BaseOptions['sasl']> {
  return { mechanism: mechanisms[sasl.mechanism], username: sasl.username ?? '', password: sasl.password ?? '' }
}

/** Topic metadata; every broker it names is checked before a client connects. */
export async function readTopic(
  client: { metadata(options: { topics: string[]; forceUpdate: boolean }): Promise<ClusterMetadata> },
  topic: string,
  context: ConnectorContext,
): Promise<{ id: string; partitions: number; metadata: ClusterMetadata }> {
  const metadata = await withErrorContext({ topic, doing: 'read the metadata of' }, () =>
    client.metadata({ topics: [topic], forceUpdate: true }),
  )
  await checkHosts(
    context,
    [...metadata.brokers.values()].map(({ host }) => host),
  )
  const topicMetadata = metadata.topics.get(topic)
  if (topicMetadata === undefined) throw new ConnectorError({ class: 'config', type: 'unknown' }, `topic ${topic} does not exist`)
  return { id: topicMetadata.id, partitions: topicMetadata.partitionsCount, metadata }
}

/** Runs `work` with an admin client. */
export async function withAdmin<T>(options: BaseOptions, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({ ...options })
  try {
    return await work(admin)
  } finally {
    await admin.close().catch(() => undefined)
  }
}

/** Runs a call of the library and converts its error to a ConnectorError. */
export async function withErrorContext<T>(failure: KafkaFailureContext, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (thrown) {
    throw toKafkaError(thrown, failure)
  }
}
