// A real Kafka (one node, KRaft) on loopback, with a listener for each way to connect: plain, TLS, TLS with client certificates, SASL
// with and without TLS. The classpath is a cache entry that Maven filled.
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheDir } from '@brokkr/local/assets/cache.ts'
import { findJava } from '@brokkr/local/assets/java.ts'
import { fetchWithMaven } from '@brokkr/local/assets/maven.ts'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { runTool } from '@brokkr/local/supervisor/run-tool.ts'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { type JvmServer, startJvmServer } from './jvm-server.ts'
import { type KafkaPorts, kafkaPortNames, kafkaProperties, logProperties } from './kafka-properties.ts'

export const kafkaVersion = '4.3.1'

/** Everything a client needs; plain data. Each text of an address is `host:port`. */
export type KafkaAddress = {
  plaintext: string
  /** The server proves who it is; `caPem` is its authority. */
  tls: string
  /** The client must prove who it is as well. */
  mutualTls: string
  sasl: string
  saslTls: string
  /** Address through `front`; absent without one. */
  fronted: string | undefined
  caPem: string
  clientCertPem: string
  clientKeyPem: string
  /** Of the mechanism PLAIN. */
  plain: { username: string; password: string }
  /** Of SCRAM-SHA-256 and SCRAM-SHA-512. */
  scram: { username: string; password: string }
}
export type KafkaServer = JvmServer & { readonly address: KafkaAddress }

export type KafkaServerOptions = {
  dir: string
  env?: NodeJS.ProcessEnv
  signal?: AbortSignal
  onProgress?: (detail: string) => void
  /** Puts something (a fault proxy) before a listener of its own and says the port that clients shall use. */
  front?: (target: { host: string; port: number }) => Promise<number>
  /** Added to server.properties. */
  settings?: Readonly<Record<string, string>>
}

/** The folder with the jars. */
export function ensureKafka(options: Pick<KafkaServerOptions, 'env' | 'signal' | 'onProgress'> = {}): Promise<string> {
  const env = options.env ?? process.env
  const pomDir = fileURLToPath(new URL('../../maven/kafka', import.meta.url))
  return fetchWithMaven({ cache: cacheDir(env), key: `kafka/${kafkaVersion}`, pomDir, ...options, env })
}

export async function startKafka(options: KafkaServerOptions): Promise<KafkaServer> {
  const libs = await ensureKafka(options)
  const java = findJava({ majorMin: 17, env: options.env ?? process.env }).command
  await mkdir(options.dir, { recursive: true })
  const ports = await choosePorts(options)
  const place = { libs, java, dir: options.dir, signal: options.signal }
  const address = await writeFiles(options, ports)
  if (!existsSync(join(options.dir, 'data', 'meta.properties'))) await format(place, address)
  const args = ['-Xmx512m', '-Dlog4j2.configurationFile=log4j2.yaml', '-cp', join(libs, '*'), 'kafka.Kafka', 'server.properties']
  const signal = options.signal === undefined ? {} : { signal: options.signal }
  const server = await startJvmServer({
    name: 'Kafka',
    java,
    args,
    dir: options.dir,
    ready: { printed: 'Kafka Server started' },
    ...signal,
  })
  return Object.assign(Object.create(server) as JvmServer, { address })
}

async function choosePorts(options: KafkaServerOptions): Promise<KafkaPorts> {
  const free = await freePorts(kafkaPortNames.length)
  const ports = Object.fromEntries(kafkaPortNames.map((name, index) => [name, free[index] as number])) as KafkaPorts
  return { ...ports, advertisedFront: await options.front?.({ host: '127.0.0.1', port: ports.front }) }
}

async function writeFiles(options: KafkaServerOptions, ports: KafkaPorts): Promise<KafkaAddress> {
  const password = () => randomBytes(12).toString('base64url')
  const ca = await issueCertificate({ commonName: 'kafka-ca', isCa: true })
  const server = await issueCertificate({ commonName: 'localhost', issuer: ca, usages: ['server'], hosts: ['localhost', '127.0.0.1'] })
  const client = await issueCertificate({ commonName: 'client', issuer: ca, usages: ['client'] })
  const plain = { username: 'app', password: password() }
  const write = (name: string, text: string) => writeFile(join(options.dir, name), text, { mode: 0o600 })
  await write('log4j2.yaml', logProperties)
  await write(
    'server.properties',
    kafkaProperties({
      ports,
      server: { certPem: server.cert, keyPem: server.key },
      caPem: ca.cert,
      plain,
      settings: options.settings ?? {},
    }),
  )
  return {
    plaintext: `127.0.0.1:${ports.plaintext}`,
    tls: `localhost:${ports.tls}`,
    mutualTls: `localhost:${ports.mutualTls}`,
    sasl: `127.0.0.1:${ports.sasl}`,
    saslTls: `localhost:${ports.saslTls}`,
    fronted: ports.advertisedFront === undefined ? undefined : `127.0.0.1:${ports.advertisedFront}`,
    caPem: ca.cert,
    clientCertPem: client.cert,
    clientKeyPem: client.key,
    plain,
    scram: { username: 'scram', password: password() },
  }
}

/** Gives the folder its identity and the users of SCRAM, which the server itself cannot be told. */
async function format(
  place: { libs: string; java: string; dir: string; signal: AbortSignal | undefined },
  { scram }: KafkaAddress,
): Promise<void> {
  const users = ['256', '512'].flatMap((bits) => ['-S', `SCRAM-SHA-${bits}=[name=${scram.username},password=${scram.password}]`])
  // An identifier must not begin with a dash.
  const clusterId = `b${randomBytes(16).toString('base64url').slice(1)}`
  const main = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xmx256m', '-cp', join(place.libs, '*'), 'kafka.tools.StorageTool']
  await runTool({
    name: 'kafka format',
    command: place.java,
    args: [...main, 'format', '-t', clusterId, '-c', 'server.properties', ...users],
    cwd: place.dir,
    logFile: join(place.dir, 'format.log'),
    timeoutMs: 300_000,
    ...(place.signal ? { signal: place.signal } : {}),
  })
}
