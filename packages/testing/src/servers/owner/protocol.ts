// What tests may ask the process that owns the servers; one line of JSON each way over its Unix socket.
import type { KubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import type { ClickhouseAddress } from '../clickhouse-server.ts'
import type { KafkaAddress } from '../kafka-server.ts'
import type { NessieAddress } from '../nessie-server.ts'
import type { TrinoAddress } from '../trino-server.ts'

/** The caller. A worker runs one test file after another, so servers of earlier files can be released. */
export type Borrower = { pid: number; file: number }

export type PlaneAddress = {
  url: string
  kubeconfigPath: string
  kubeconfigCertPath: string
  caPem: string
  token: string
  plainToken: string
  podLogPath: string
  hasControllers: boolean
}

export type ServerCalls = {
  'postgres.create': { given: { from: 'template' | 'nothing' }; answer: { name: string; url: string } }
  'postgres.drop': { given: { name: string }; answer: null }
  'kube.plane': { given: { controllers: boolean; nodes: number }; answer: PlaneAddress }
  kafka: { given: object; answer: KafkaAddress }
  schemaRegistry: { given: object; answer: { url: string } }
  clickhouse: { given: object; answer: ClickhouseAddress }
  trino: { given: object; answer: TrinoAddress }
  nessie: { given: object; answer: NessieAddress }
  'kube.assets': { given: { stage: 'core' | 'full' }; answer: KubeAssets }
  /** A folder for a server that a test starts itself; removed at the end of the run at the latest. */
  'loan.folder': { given: { kind: 'fast' | 'plain' }; answer: string }
  /** Processes in a borrowed folder, so that they end with the run even if the test is killed. */
  'loan.note': { given: { folder: string; processes: RecordedProcess[] }; answer: null }
  status: { given: object; answer: { pid: number; folders: string[]; processes: RecordedProcess[] } }
}
export type CallName = keyof ServerCalls
export type CallInput<N extends CallName> = ServerCalls[N]['given']
export type CallOutput<N extends CallName> = ServerCalls[N]['answer']

export type Request = { [N in CallName]: { call: N; given: CallInput<N>; by: Borrower } }[CallName]
export type Reply = { answer: unknown } | { failed: { name: string; message: string } }

export type Handlers = { [N in CallName]: (given: CallInput<N>, by: Borrower) => Promise<CallOutput<N>> }

/** Where the owner of a run listens: short, because the path of a Unix socket may have about a hundred bytes. */
export function toSocketPath(runFolder: string): string {
  return `${runFolder}/owner/socket`
}

/** Where the owner of this run's servers listens. */
export type ServersPath = string
declare module 'vitest' {
  interface ProvidedContext {
    brokkrServers: ServersPath
  }
}
