// The text of Kafka's server.properties for tests. Pure.

export const kafkaPortNames = ['controller', 'plaintext', 'tls', 'mutualTls', 'sasl', 'saslTls', 'front'] as const
export type KafkaPorts = Record<(typeof kafkaPortNames)[number], number> & { advertisedFront?: number | undefined }

export type KafkaSettings = {
  ports: KafkaPorts
  server: { certPem: string; keyPem: string }
  caPem: string
  plain: { username: string; password: string }
  settings: Readonly<Record<string, string>>
}

export const logProperties = `Configuration:
  Appenders: {Console: {name: S, PatternLayout: {pattern: "%d %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: {ref: S}}}
`

export function kafkaProperties(given: KafkaSettings): string {
  const { ports, server, caPem, plain } = given
  const keystore = { 'keystore.type': 'PEM', 'keystore.key': server.keyPem, 'keystore.certificate.chain': server.certPem }
  const tls = (listener: string, more: Record<string, string> = {}) => prefixed(`listener.name.${listener}.ssl.`, { ...keystore, ...more })
  return print({
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@127.0.0.1:${ports.controller}`,
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAIN',
    'listener.security.protocol.map':
      'CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT,FRONT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL',
    ...listeners(ports),
    ...tls('tls'),
    ...tls('mutual', { 'truststore.type': 'PEM', 'truststore.certificates': caPem, 'client.auth': 'required' }),
    ...tls('sasltls'),
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
    ...logins('sasl', plain),
    ...logins('sasltls', plain),
    ...single,
    ...given.settings,
  })
}

/** One node, one partition per internal topic; unknown topics are errors; groups are ready immediately. */
const single = {
  'log.dirs': 'data',
  'num.partitions': '1',
  'auto.create.topics.enable': 'false',
  'offsets.topic.num.partitions': '1',
  'offsets.topic.replication.factor': '1',
  'transaction.state.log.replication.factor': '1',
  'transaction.state.log.num.partitions': '1',
  'transaction.state.log.min.isr': '1',
  'share.coordinator.state.topic.replication.factor': '1',
  'share.coordinator.state.topic.min.isr': '1',
  'share.coordinator.state.topic.num.partitions': '1',
  'group.initial.rebalance.delay.ms': '0',
  'group.min.session.timeout.ms': '1000',
  'log.retention.hours': '24',
}

function listeners(ports: KafkaPorts): Record<string, string> {
  const at = (name: string, port: number, host = '127.0.0.1') => `${name}://${host}:${port}`
  const own = [at('PLAIN', ports.plaintext), at('SASL', ports.sasl)]
  const byName = (host: string) => [at('TLS', ports.tls, host), at('MUTUAL', ports.mutualTls, host), at('SASLTLS', ports.saslTls, host)]
  const isFronted = ports.advertisedFront !== undefined
  return {
    listeners: [at('CONTROLLER', ports.controller), ...own, ...byName('127.0.0.1'), ...(isFronted ? [at('FRONT', ports.front)] : [])].join(
      ',',
    ),
    'advertised.listeners': [
      ...own,
      ...byName('localhost'),
      ...(ports.advertisedFront === undefined ? [] : [at('FRONT', ports.advertisedFront)]),
    ].join(','),
  }
}

function logins(listener: string, plain: KafkaSettings['plain']): Record<string, string> {
  const module = (name: string) => `org.apache.kafka.common.security.${name} required`
  return prefixed(`listener.name.${listener}.`, {
    'plain.sasl.jaas.config': `${module('plain.PlainLoginModule')} user_${plain.username}="${plain.password}";`,
    'scram-sha-256.sasl.jaas.config': `${module('scram.ScramLoginModule')};`,
    'scram-sha-512.sasl.jaas.config': `${module('scram.ScramLoginModule')};`,
  })
}

function prefixed(prefix: string, settings: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`${prefix}${name}`, value]))
}

/** A line break inside a value (PEM) is written as the two characters \\n. */
function print(settings: Record<string, string>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}\n`)
    .join('')
}
