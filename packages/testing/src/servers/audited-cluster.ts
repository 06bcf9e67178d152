// Control plane with an audit log of all writes, so that a test can count the requests that reached the API server.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type PrivateCluster, type PrivateClusterOptions, privateCluster } from './kube.ts'
import { callServers } from './owner/client.ts'

export interface AuditedRequest {
  readonly verb: string
  readonly userAgent: string
  readonly user: string
  /** Set if the caller impersonated another user. */
  readonly impersonated: string | null
  readonly resource: string
  readonly namespace: string
  readonly name: string
  readonly isDryRun: boolean
  readonly status: number
}
export type AuditedCluster = PrivateCluster & {
  /** Every request that was no get, list or watch, in the order of their answers. */
  readonly writes: (of?: { readonly by?: RegExp; readonly since?: number }) => Promise<AuditedRequest[]>
  /** A place in the log, for `since`. */
  readonly mark: () => Promise<number>
  readonly auditLogPath: string
}

const anAgent = /^brokkr-agent\//

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  rules: [{ level: 'Metadata', verbs: ['create', 'update', 'patch', 'delete', 'deletecollection'] }, { level: 'None' }],
}

/** With `reads` the log also holds gets, lists and watches. */
export async function auditedCluster(options: PrivateClusterOptions & { reads?: boolean } = {}): Promise<AuditedCluster> {
  const { reads = false, ...plane } = options
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const [policyPath, auditLogPath] = [join(folder, 'policy.json'), join(folder, 'audit.log')]
  await writeFile(policyPath, JSON.stringify(reads ? { ...policy, rules: [{ level: 'Metadata' }] } : policy))
  await writeFile(auditLogPath, '')
  const args = [`--audit-policy-file=${policyPath}`, `--audit-log-path=${auditLogPath}`]
  const cluster = await privateCluster({ ...plane, apiserverArgs: [...(plane.apiserverArgs ?? []), ...args] })
  const lines = async () => (await readFile(auditLogPath, 'utf8')).split('\n').slice(0, -1)
  return {
    ...cluster,
    auditLogPath,
    mark: async () => (await lines()).length,
    writes: async ({ by = anAgent, since = 0 } = {}) =>
      (await lines())
        .slice(since)
        .map(toAuditedRequest)
        .filter(({ userAgent }) => by.test(userAgent)),
  }
}

interface Entry {
  readonly verb: string
  readonly userAgent?: string
  readonly requestURI: string
  readonly user: { readonly username?: string }
  readonly impersonatedUser?: { readonly username?: string }
  readonly objectRef?: { readonly resource?: string; readonly namespace?: string; readonly name?: string }
  readonly responseStatus?: { readonly code?: number }
}

function toAuditedRequest(line: string): AuditedRequest {
  const entry = JSON.parse(line) as Entry
  return {
    verb: entry.verb,
    userAgent: entry.userAgent ?? '',
    user: entry.user.username ?? '',
    impersonated: entry.impersonatedUser?.username ?? null,
    resource: entry.objectRef?.resource ?? '',
    namespace: entry.objectRef?.namespace ?? '',
    name: entry.objectRef?.name ?? '',
    isDryRun: /[?&]dryRun=/.test(entry.requestURI),
    status: entry.responseStatus?.code ?? 0,
  }
}

export const isDelete = ({ verb, isDryRun }: AuditedRequest): boolean => (verb === 'delete' || verb === 'deletecollection') && !isDryRun
/** Leases apart: they are renewed all the time. */
export const isWrite = ({ resource, isDryRun }: AuditedRequest): boolean => resource !== 'leases' && !isDryRun
