// Classifies errors of Kafka: retry, dead-letter the record, or report to the operator. Pure. Messages name topics, groups and Kafka's
// error ids, never credentials or payloads.
import { ConnectorError, type ErrorClass, type ErrorType } from '../connector.ts'

export interface KafkaFailureContext {
  readonly topic: string
  /** Operation before the topic's name: "read", "write to". */
  readonly doing: string
}

interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}

export function toKafkaError(thrown: unknown, { topic, doing }: KafkaFailureContext): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  const links = listLinks(thrown)
  const kind = classify(links)
  return new ConnectorError(kind, `cannot ${doing} topic ${topic}: ${explain(links)}`, { cause: thrown })
}

/** Kafka's error ids anywhere in the chain of causes. */
export const findApiIds = (thrown: unknown): readonly string[] => listLinks(thrown).flatMap(({ apiId }) => apiId ?? [])

interface Link {
  readonly code: string | undefined
  readonly apiId: string | undefined
  readonly canRetry: boolean
  readonly message: string
}

const linksMax = 50

/** The error, its aggregated errors and its causes, outermost first. */
function listLinks(thrown: unknown): readonly Link[] {
  const links: Link[] = []
  const queue: unknown[] = [thrown]
  while (queue.length > 0 && links.length < linksMax) {
    const error = queue.shift()
    if (!(error instanceof Error)) continue
    const { code, apiId, canRetry } = error as { code?: unknown; apiId?: unknown; canRetry?: unknown }
    links.push({
      code: typeof code === 'string' ? code : undefined,
      apiId: typeof apiId === 'string' ? apiId : undefined,
      canRetry: canRetry === true,
      message: error.message,
    })
    if (error instanceof AggregateError) queue.push(...(error.errors as unknown[]))
    if (error.cause !== undefined) queue.push(error.cause)
  }
  return links
}

const config = (type: ErrorType): Kind => ({ class: 'config', type })
const transient = (type: ErrorType): Kind => ({ class: 'transient', type })

const byApiId: Readonly<Record<string, Kind>> = {
  SASL_AUTHENTICATION_FAILED: config('auth_error'),
  UNSUPPORTED_SASL_MECHANISM: config('auth_error'),
  ILLEGAL_SASL_STATE: config('auth_error'),
  TOPIC_AUTHORIZATION_FAILED: config('auth_error'),
  GROUP_AUTHORIZATION_FAILED: config('auth_error'),
  CLUSTER_AUTHORIZATION_FAILED: config('auth_error'),
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: config('auth_error'),
  UNKNOWN_TOPIC_OR_PARTITION: config('unknown'),
  UNKNOWN_TOPIC_ID: config('unknown'),
  INVALID_TOPIC_EXCEPTION: config('unknown'),
  INVALID_GROUP_ID: config('unknown'),
  INVALID_REQUIRED_ACKS: config('unknown'),
  UNSUPPORTED_VERSION: config('unknown'),
  INCONSISTENT_GROUP_PROTOCOL: config('unknown'),
  MESSAGE_TOO_LARGE: { class: 'record', type: 'invalid_data' },
  RECORD_LIST_TOO_LARGE: { class: 'record', type: 'invalid_data' },
  INVALID_RECORD: { class: 'record', type: 'invalid_data' },
  INVALID_TIMESTAMP: { class: 'record', type: 'invalid_data' },
  UNSUPPORTED_COMPRESSION_TYPE: config('unknown'),
  // Either the coordinator ended a transaction that took too long, or a newer processor took over; then the group and the checkpoint fence
  // too.
  INVALID_PRODUCER_EPOCH: transient('transient'),
  PRODUCER_FENCED: transient('transient'),
  INVALID_TXN_STATE: transient('transient'),
  UNKNOWN_PRODUCER_ID: transient('transient'),
  OUT_OF_ORDER_SEQUENCE_NUMBER: transient('transient'),
  ILLEGAL_GENERATION: transient('transient'),
  UNKNOWN_MEMBER_ID: transient('transient'),
  REBALANCE_IN_PROGRESS: transient('transient'),
  GROUP_MAX_SIZE_REACHED: transient('transient'),
}

/** Node's codes for a peer with an invalid certificate or without TLS. */
const certificateCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$)/

function classify(links: readonly Link[]): Kind {
  if (links.some(({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return config('auth_error')
  const kafkaKind = links.map(({ apiId }) => byApiId[apiId ?? '']).find((kind) => kind !== undefined)
  if (kafkaKind !== undefined) return kafkaKind
  if (links.some(({ code }) => code !== undefined && certificateCodes.test(code))) return config('connection_error')
  if (links.some(({ code }) => code === 'PLT_KFK_TIMEOUT')) return transient('timeout')
  if (links.some(({ code }) => code === 'PLT_KFK_NETWORK' || isNetworkCode(code))) return transient('connection_error')
  if (links.some(({ canRetry }) => canRetry)) return transient('transient')
  if (links.some(({ code, message }) => code?.startsWith('PLT_KFK_UNSUPPORTED') || message.startsWith('Unknown topic ')))
    return config('unknown')
  return { class: 'unknown', type: 'unknown' }
}

const isNetworkCode = (code: string | undefined): boolean => /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|EAI_AGAIN|ENOTFOUND)/.test(code ?? '')

/** The most specific link: Kafka's error, else Node's, else the library's. */
function explain(links: readonly Link[]): string {
  const kafkaLink = links.find(({ apiId }) => apiId !== undefined)
  if (kafkaLink !== undefined) return `${kafkaLink.apiId}: ${kafkaLink.message}`
  const system = links.find(({ code }) => code !== undefined && !code.startsWith('PLT_KFK_'))
  return system === undefined ? (links.at(-1)?.message ?? 'unknown error') : `${system.code}: ${system.message}`
}
