// How every Kafka client of a flow is set up: brokers, TLS and SASL from the flow's texts, addresses checked, bounded times; and what
// an error of the library means. The library is known to the kafka-*.ts files alone.
import { randomUUID } from 'node:crypto'
import { isIP } from 'node:net'
import type { SecurityProtocol } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { Admin, type BaseOptions, type ClusterMetadata } from '@platformatic/kafka'
import { checkHosts } from './checked-hosts.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'
import { type KafkaFailureContext, kafkaError } from './kafka-errors.ts'
import { type TlsSettings, tlsOptions } from './tls-options.ts'

/** What both sides of a flow have. */
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

/** The library tries again by itself, and its steps multiply: twice and shortly, longer outages are the pipeline's to wait for. */
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
export function parseBroker(text: string): { host: string; port: number } {
  const found = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(text.trim())
  const host = found?.[1] ?? found?.[2]
  if (host === undefined) throw new ConnectorError({ class: 'config', type: 'connection_error' }, `"${text}" is no address of a broker`)
  return { host, port: Number(found?.[3] ?? defaultPort) }
}

function saslOptions(sasl: SaslSettings): NonNullable<BaseOptions['sasl']> {
  return { mechanism: mechanisms[sasl.mechanism], username: sasl.username ?? '', password: sasl.password ?? '' }
}

/** The topic as the cluster knows it; every broker it names is checked before anybody dials it. */
export async function readTopic(
  client: { metadata(options: { topics: string[]; forceUpdate: boolean }): Promise<ClusterMetadata> },
  topic: string,
  context: ConnectorContext,
): Promise<{ id: string; partitions: number; metadata: ClusterMetadata }> {
  const metadata = await said({ topic, doing: 'read the metadata of' }, () => client.metadata({ topics: [topic], forceUpdate: true }))
  await checkHosts(
    context,
    [...metadata.brokers.values()].map(({ host }) => host),
  )
  const found = metadata.topics.get(topic)
  if (found === undefined) throw new ConnectorError({ class: 'config', type: 'unknown' }, `topic ${topic} does not exist`)
  return { id: found.id, partitions: found.partitionsCount, metadata }
}

/** An admin client for one piece of work. */
export async function withAdmin<T>(options: BaseOptions, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({ ...options })
  try {
    return await work(admin)
  } finally {
    await admin.close().catch(() => undefined)
  }
}

/** Runs a call of the library; what it throws leaves as ConnectorError. */
export async function said<T>(failure: KafkaFailureContext, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (thrown) {
    throw kafkaError(thrown, failure)
  }
}
