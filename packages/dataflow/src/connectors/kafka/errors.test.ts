import { GenericError, MultipleErrors, NetworkError, ProtocolError } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { ConnectorError } from '../connector.ts'
import { findApiIds, toKafkaError } from './errors.ts'

const where = { topic: 't', doing: 'read' }
const system = (code: string) => Object.assign(new Error(code), { code })

test.each([
  [new ProtocolError('MESSAGE_TOO_LARGE'), 'record', 'invalid_data'],
  [new ProtocolError('UNKNOWN_TOPIC_OR_PARTITION'), 'config', 'unknown'],
  [new ProtocolError('TOPIC_AUTHORIZATION_FAILED'), 'config', 'auth_error'],
  [new ProtocolError('SASL_AUTHENTICATION_FAILED'), 'config', 'auth_error'],
  [new ProtocolError('NOT_LEADER_OR_FOLLOWER'), 'transient', 'transient'],
  [new ProtocolError('REBALANCE_IN_PROGRESS'), 'transient', 'transient'],
  [new ProtocolError('CONCURRENT_TRANSACTIONS'), 'transient', 'transient'],
  [new ProtocolError('PRODUCER_FENCED'), 'transient', 'transient'],
  [new NetworkError('closed'), 'transient', 'connection_error'],
  [new NetworkError('closed', { cause: system('ECONNREFUSED') }), 'transient', 'connection_error'],
  [new NetworkError('closed', { cause: system('SELF_SIGNED_CERT_IN_CHAIN') }), 'config', 'connection_error'],
  [new MultipleErrors('all failed', [new NetworkError('x'), new GenericError('PLT_KFK_AUTHENTICATION', 'no')]), 'config', 'auth_error'],
  [new GenericError('PLT_KFK_TIMEOUT', 'late'), 'transient', 'timeout'],
  [new GenericError('PLT_KFK_USER', 'Unknown topic t.'), 'config', 'unknown'],
  [new Error('what'), 'unknown', 'unknown'],
  ['no error at all', 'unknown', 'unknown'],
])('%s', (thrown, kind, type) => {
  expect(toKafkaError(thrown, where)).toMatchObject({ class: kind, type })
})

test("an error names operation, topic and Kafka's error id; a ConnectorError passes", () => {
  expect(
    toKafkaError(new MultipleErrors('produce failed 4 times', [new ProtocolError('MESSAGE_TOO_LARGE')]), {
      topic: 'orders',
      doing: 'write to',
    }).message,
  ).toMatch(/^cannot write to topic orders: MESSAGE_TOO_LARGE: /)
  const own = new ConnectorError({ class: 'record', type: 'invalid_data' }, 'own')
  expect(toKafkaError(own, where)).toBe(own)
  expect(findApiIds(new MultipleErrors('x', [new ProtocolError('ILLEGAL_GENERATION')]))).toEqual(['ILLEGAL_GENERATION'])
})
