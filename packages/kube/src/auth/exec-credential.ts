// Credential plugins: a program named in the kubeconfig prints an ExecCredential. Runs without a shell, with limits on time and output.
import { execFile } from 'node:child_process'
import { textAt, valueAt } from '../client/fields.ts'
import { KubeError } from '../client/kube-error.ts'
import type { Fields } from '../client/object.ts'
import type { ExecPlugin } from './kube-config.ts'

export interface ExecCredential {
  token?: string
  certificate?: { cert: string; key: string }
  expiresAtMs: number
}

export interface ExecOptions {
  env: Readonly<Record<string, string | undefined>>
  cluster: Fields
  timeoutMs: number
  signal?: AbortSignal | undefined
}

export async function runExecPlugin(plugin: ExecPlugin, options: ExecOptions): Promise<ExecCredential> {
  return parseExecCredential(plugin, await run(plugin, options))
}

const OUTPUT_BYTES_MAX = 1024 * 1024

function run(plugin: ExecPlugin, options: ExecOptions): Promise<string> {
  const info = {
    apiVersion: plugin.apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: false, ...(plugin.provideClusterInfo ? { cluster: options.cluster } : {}) },
  }
  return new Promise((resolve, reject) => {
    const child = execFile(
      plugin.command,
      plugin.args,
      {
        env: { ...options.env, ...plugin.env, KUBERNETES_EXEC_INFO: JSON.stringify(info) },
        timeout: options.timeoutMs,
        killSignal: 'SIGKILL',
        maxBuffer: OUTPUT_BYTES_MAX,
        windowsHide: true,
        ...(options.signal ? { signal: options.signal } : {}),
      },
      (error, stdout, stderr) => (error ? reject(failed(plugin, error, stderr)) : resolve(stdout)),
    )
    child.stdin?.end()
  })
}

function failed(plugin: ExecPlugin, error: Error & { code?: unknown; killed?: boolean }, stderr: string): Error {
  if (error.name === 'AbortError') return error
  const absent = error.code === 'ENOENT'
  const why = absent
    ? 'is not installed'
    : error.killed
      ? 'did not end in time'
      : `ended with ${String(error.code)}: ${stderr.trim().slice(-300)}`
  const hint = absent && plugin.installHint ? `. ${plugin.installHint.trim().slice(0, 500)}` : ''
  return badCredential(plugin, `${why}${hint}`, error)
}

/** Parses the plugin's output. The output never appears in an error message, because it contains the credential. */
function parseExecCredential(plugin: ExecPlugin, text: string): ExecCredential {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw badCredential(plugin, 'printed something that is not JSON')
  }
  if (textAt(value, 'kind') !== 'ExecCredential') throw badCredential(plugin, 'printed no ExecCredential')
  if (textAt(value, 'apiVersion') !== plugin.apiVersion)
    throw badCredential(plugin, `answered in ${textAt(value, 'apiVersion')}, asked for was ${plugin.apiVersion}`)
  const status = valueAt(value, 'status')
  const token = textAt(status, 'token')
  const cert = textAt(status, 'clientCertificateData')
  const key = textAt(status, 'clientKeyData')
  if (!token && !(cert && key)) throw badCredential(plugin, 'gave neither a token nor a certificate with its key')
  return {
    ...(token ? { token } : {}),
    ...(cert && key ? { certificate: { cert, key } } : {}),
    expiresAtMs: parseExpiry(plugin, textAt(status, 'expirationTimestamp')),
  }
}

function parseExpiry(plugin: ExecPlugin, text: string | undefined): number {
  if (text === undefined) return Number.POSITIVE_INFINITY
  const time = Date.parse(text)
  if (Number.isNaN(time)) throw badCredential(plugin, `gave the expiry ${JSON.stringify(text)}, which is no time`)
  return time
}

const badCredential = (plugin: ExecPlugin, why: string, cause?: unknown): KubeError =>
  new KubeError(`credential plugin ${plugin.command} ${why}`, { reason: 'BadCredential', ...(cause === undefined ? {} : { cause }) })
