// What an error of Kafka means for a flow: wait, dead-letter the record, or tell the operator. Pure. Texts name topics, groups and
// Kafka's own error ids, never credentials or payloads.
import { ConnectorError, type ErrorClass, type ErrorType } from './connector.ts'

export interface KafkaFailureContext {
  readonly topic: string
  /** Fits before the topic: "read", "write to". */
  readonly doing: string
}

interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}

export function kafkaError(thrown: unknown, { topic, doing }: KafkaFailureContext): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  const links = chainOf(thrown)
  const kind = kindOf(links)
  return new ConnectorError(kind, `cannot ${doing} topic ${topic}: ${explain(links)}`, { cause: thrown })
}

/** The ids that Kafka itself gave, wherever they stand in the chain. */
export const apiIdsOf = (thrown: unknown): readonly string[] => chainOf(thrown).flatMap(({ apiId }) => apiId ?? [])

interface Link {
  readonly code: string | undefined
  readonly apiId: string | undefined
  readonly canRetry: boolean
  readonly message: string
}

const linksMax = 50

/** An error, what it gathers and what caused it, outermost first. */
function chainOf(thrown: unknown): readonly Link[] {
  const links: Link[] = []
  const waiting: unknown[] = [thrown]
  while (waiting.length > 0 && links.length < linksMax) {
    const error = waiting.shift()
    if (!(error instanceof Error)) continue
    const { code, apiId, canRetry } = error as { code?: unknown; apiId?: unknown; canRetry?: unknown }
    links.push({
      code: typeof code === 'string' ? code : undefined,
      apiId: typeof apiId === 'string' ? apiId : undefined,
      canRetry: canRetry === true,
      message: error.message,
    })
    if (error instanceof AggregateError) waiting.push(...(error.errors as unknown[]))
    if (error.cause !== undefined) waiting.push(error.cause)
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
  // The coordinator, when a transaction took too long; or a later processor of the flow: then the group and the checkpoint say so, too.
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

/** What Node says of a peer that cannot prove who it is, or does not speak TLS at all. */
const certificateCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$)/

function kindOf(links: readonly Link[]): Kind {
  if (links.some(({ code }) => code === 'PLT_KFK_AUTHENTICATION')) return config('auth_error')
  const named = links.map(({ apiId }) => byApiId[apiId ?? '']).find((kind) => kind !== undefined)
  if (named !== undefined) return named
  if (links.some(({ code }) => code !== undefined && certificateCodes.test(code))) return config('connection_error')
  if (links.some(({ code }) => code === 'PLT_KFK_TIMEOUT')) return transient('timeout')
  if (links.some(({ code }) => code === 'PLT_KFK_NETWORK' || isNetworkCode(code))) return transient('connection_error')
  if (links.some(({ canRetry }) => canRetry)) return transient('transient')
  if (links.some(({ code, message }) => code?.startsWith('PLT_KFK_UNSUPPORTED') || message.startsWith('Unknown topic ')))
    return config('unknown')
  return { class: 'unknown', type: 'unknown' }
}

const isNetworkCode = (code: string | undefined): boolean => /^(ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|EAI_AGAIN|ENOTFOUND)/.test(code ?? '')

/** The most telling link: what Kafka named, else what Node named, else the library's own words. */
function explain(links: readonly Link[]): string {
  const named = links.find(({ apiId }) => apiId !== undefined)
  if (named !== undefined) return `${named.apiId}: ${named.message}`
  const system = links.find(({ code }) => code !== undefined && !code.startsWith('PLT_KFK_'))
  return system === undefined ? (links.at(-1)?.message ?? 'unknown error') : `${system.code}: ${system.message}`
}
