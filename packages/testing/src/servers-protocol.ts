// What tests may ask the process that owns the servers; one line of JSON each way over its Unix socket.
import type { KubeAssets } from '@brokkr/local/assets.ts'
import type { RecordedProcess } from '@brokkr/local/process-table.ts'
import type { KafkaAddress } from './kafka-server.ts'

/** Who asks. A worker runs one test file after another: what it borrowed for an earlier file can be cleared away. */
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
  'kube.assets': { given: { stage: 'core' | 'full' }; answer: KubeAssets }
  /** A folder for a server that a test starts itself; removed at the end of the run at the latest. */
  'loan.folder': { given: { kind: 'fast' | 'plain' }; answer: string }
  /** Processes that live in a borrowed folder, so that they end with the run whatever happens to the test. */
  'loan.note': { given: { folder: string; processes: RecordedProcess[] }; answer: null }
  status: { given: object; answer: { pid: number; folders: string[]; processes: RecordedProcess[] } }
}
export type CallName = keyof ServerCalls
export type Given<N extends CallName> = ServerCalls[N]['given']
export type Answer<N extends CallName> = ServerCalls[N]['answer']

export type Request = { [N in CallName]: { call: N; given: Given<N>; by: Borrower } }[CallName]
export type Reply = { answer: unknown } | { failed: { name: string; message: string } }

export type Handlers = { [N in CallName]: (given: Given<N>, by: Borrower) => Promise<Answer<N>> }

/** Where the owner of a run listens: short, because the path of a Unix socket may have about a hundred bytes. */
export function socketPathOf(runFolder: string): string {
  return `${runFolder}/owner/socket`
}

/** Where the owner of this run's servers listens. */
export type ServersPath = string
declare module 'vitest' {
  interface ProvidedContext {
    brokkrServers: ServersPath
  }
}
