// The data servers of a run, in its owner: each started on first request, once, and at most two of them at a time, because each takes
// a core for seconds.
import { join } from 'node:path'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import { createLimiter } from '@brokkr/runtime/concurrency.ts'
import { type ClickhouseAddress, startClickhouse } from '../clickhouse-server.ts'
import type { DataServer } from '../data-server.ts'
import { type KafkaAddress, startKafka } from '../kafka-server.ts'
import { type NessieAddress, startNessie } from '../nessie-server.ts'
import { type S3Address, startS3 } from '../s3-server.ts'
import { startSchemaRegistry } from '../schema-registry-server.ts'
import { startTrino, type TrinoAddress } from '../trino-server.ts'
import { once } from './once.ts'

export type SharedDataServers = {
  kafka(): Promise<KafkaAddress>
  schemaRegistry(): Promise<{ url: string }>
  clickhouse(): Promise<ClickhouseAddress>
  trino(): Promise<TrinoAddress>
  nessie(): Promise<NessieAddress>
  stop(): Promise<void>
}
export type SharedDataOptions = {
  dir: string
  signal: AbortSignal
  onStarted: (started: RecordedProcess) => void
  onProgress: (line: string) => void
}

const startsAtOnceMax = 2

export function sharedDataServers(options: SharedDataOptions): SharedDataServers {
  const { signal } = options
  const starts = createLimiter(startsAtOnceMax)
  const started: Promise<DataServer | undefined>[] = []
  const shared = <S extends DataServer, N = undefined>(
    name: string,
    start: (common: StartCommon, needed: N) => Promise<S>,
    /** Another server, which is started before. */
    need: () => Promise<N> = async () => undefined as N,
  ) =>
    once(async () => {
      const needed = await need()
      const onProgress = (detail: string) => options.onProgress(`${name}: ${detail}`)
      const server = starts.run(() => start({ dir: join(options.dir, name), signal, onProgress }, needed))
      // Also one that is still on its way when the run ends must be stopped.
      started.push(server.catch(() => undefined))
      options.onStarted((await server).process)
      return server
    })
  const kafka = shared('kafka', startKafka)
  const registry = shared('schema-registry', startSchemaRegistry)
  const clickhouse = shared('clickhouse', startClickhouse)
  const trino = shared('trino', startTrino)
  const s3 = shared('s3', startS3)
  const nessie = shared(
    'nessie',
    (common, address: S3Address) => startNessie({ ...common, s3: address }),
    async () => (await s3()).address,
  )
  return {
    kafka: async () => describeServer(await kafka()).address,
    schemaRegistry: async () => ({ url: describeServer(await registry()).url }),
    clickhouse: async () => describeServer(await clickhouse()).address,
    trino: async () => describeServer(await trino()).address,
    nessie: async () => describeServer(await nessie()).address,
    async stop() {
      // In order of their end, not of their start: none needs another to stop.
      await Promise.all(started.map(async (server) => (await server)?.kill('SIGKILL')))
    },
  }
}

type StartCommon = { dir: string; signal: AbortSignal; onProgress: (detail: string) => void }

/** For a server that has exited, the error contains the end of its log instead of a refused connection. */
function describeServer<S extends DataServer>(server: S): S {
  if (server.isRunning()) return server
  throw new Error(`a data server of this run (pid ${server.process.pid}) is gone; the end of its log:\n${server.logTail()}`)
}
