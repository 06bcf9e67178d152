// Address of an API server and credentials for it, from a kubeconfig or a pod's environment.
import type { Fields } from '../client/object.ts'

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
  /** Scheme, host, port and optional path, without a trailing slash. */
  server: string
  namespace: string
  ca?: PemSource
  tlsServerName?: string
  certificate?: { cert: PemSource; key: PemSource }
  token?: TokenSource
  as?: Impersonation
}

/** The configuration is invalid: no request was sent and a retry cannot help. */
export class BadKubeconfig extends Error {
  override readonly name = 'BadKubeconfig'
}

export const serviceAccountUser = (namespace: string, name: string): Impersonation => ({
  user: `system:serviceaccount:${namespace}:${name}`,
})

/** Cluster information for exec plugins that request it. */
export const toClusterInfo = (config: KubeConfig): Fields => ({
  server: config.server,
  ...(config.tlsServerName ? { 'tls-server-name': config.tlsServerName } : {}),
  ...(config.ca && 'pem' in config.ca ? { 'certificate-authority-data': Buffer.from(config.ca.pem).toString('base64') } : {}),
})
