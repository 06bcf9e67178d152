// Where an API server is and how to sign in: what a kubeconfig or a pod's environment comes down to.
import type { Fields } from './object.ts'

export type PemSource = { pem: string } | { file: string }

export interface ExecPlugin {
  kind: 'exec'
  apiVersion: string
  command: string
  args: string[]
  env: Record<string, string>
  provideClusterInfo: boolean
  installHint?: string
}

export type TokenSource = { kind: 'value'; value: string } | { kind: 'file'; path: string } | ExecPlugin

export interface Impersonation {
  user: string
  groups?: string[]
  uid?: string
  extra?: Record<string, string[]>
}

export interface KubeConfig {
  /** Scheme, host, port and perhaps a path; no slash at the end. */
  server: string
  namespace: string
  ca?: PemSource
  tlsServerName?: string
  certificate?: { cert: PemSource; key: PemSource }
  token?: TokenSource
  as?: Impersonation
}

/** The configuration itself is wrong: nothing was sent, trying again changes nothing. */
export class BadKubeconfig extends Error {
  override readonly name = 'BadKubeconfig'
}

export const serviceAccountUser = (namespace: string, name: string): Impersonation => ({
  user: `system:serviceaccount:${namespace}:${name}`,
})

/** What an exec plugin is told about the cluster when it asks for it. */
export const clusterInfoOf = (config: KubeConfig): Fields => ({
  server: config.server,
  ...(config.tlsServerName ? { 'tls-server-name': config.tlsServerName } : {}),
  ...(config.ca && 'pem' in config.ca ? { 'certificate-authority-data': Buffer.from(config.ca.pem).toString('base64') } : {}),
})
