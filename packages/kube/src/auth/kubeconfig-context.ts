// Converts one context of a kubeconfig, with its cluster and user, to a configuration. Names unsupported options in the error. Pure.
import { fieldsAt, flagAt, rowsAt, textAt, valueAt } from '../client/fields.ts'
import type { Fields } from '../client/object.ts'
import type { Impersonation, KubeConfig, PemSource, TokenSource } from './kube-config.ts'
import { BadKubeconfig } from './kube-config.ts'

export interface Origin {
  source: string
  context?: string | undefined
  /** Whether the kubeconfig may name files and programs. */
  outside: boolean
}

/** Keys whose value is a file path. */
export const FILE_KEYS = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile'] as const

export function parseContext(file: Fields, origin: Origin): KubeConfig {
  const say = (text: string) => new BadKubeconfig(`kubeconfig ${origin.source}: ${text}`)
  const requireEntry = (list: string, inner: string, name: string | undefined, role: string) => {
    const row = rowsAt(file, list).find((entry) => textAt(entry, 'name') === name)
    const value = fieldsAt(row, inner)
    if (value) return value
    const names = rowsAt(file, list).map((entry) => textAt(entry, 'name') ?? '?')
    throw say(
      `${role} ${name === undefined ? 'is not set' : `"${name}" does not exist`}; there are: ${names.slice(0, 20).join(', ') || 'none'}`,
    )
  }
  const contextName = origin.context ?? textAt(file, 'current-context')
  const context = requireEntry('contexts', 'context', contextName || undefined, origin.context ? 'context' : 'current-context')
  const cluster = requireEntry('clusters', 'cluster', textAt(context, 'cluster'), `cluster of context "${contextName}"`)
  const userName = textAt(context, 'user')
  const user = userName ? requireEntry('users', 'user', userName, `user of context "${contextName}"`) : {}
  refuseUnsupported(cluster, user, origin, say)
  return build({ cluster, user, context }, say)
}

function refuseUnsupported(cluster: Fields, user: Fields, origin: Origin, say: (text: string) => BadKubeconfig): void {
  if (flagAt(cluster, 'insecure-skip-tls-verify'))
    throw say('insecure-skip-tls-verify is refused: the server could be anybody. Put its CA into certificate-authority-data')
  if (textAt(cluster, 'proxy-url')) throw say('proxy-url is not supported: name an address of the API server that is reachable directly')
  if (valueAt(user, 'auth-provider') !== undefined)
    throw say(
      `auth-provider "${textAt(user, 'auth-provider', 'name') ?? '?'}" is not supported: use an exec plugin, a token or a client certificate`,
    )
  if (valueAt(user, 'username') !== undefined || valueAt(user, 'password') !== undefined)
    throw say('username and password are not supported: use a token, a client certificate or an exec plugin')
  if (origin.outside) return
  if (valueAt(user, 'exec') !== undefined)
    throw say('an exec plugin is refused here: this kubeconfig may not start programs. Use a token or a client certificate')
  const file = FILE_KEYS.find((key) => textAt(cluster, key) ?? textAt(user, key))
  if (file)
    throw say(
      `${file} is refused here: this kubeconfig may not name files of this machine. Put the content into ${file === 'tokenFile' ? 'token' : `${file}-data`}`,
    )
}

function build(parts: { cluster: Fields; user: Fields; context: Fields }, say: (text: string) => BadKubeconfig): KubeConfig {
  const { cluster, user } = parts
  const server = checkServer(textAt(cluster, 'server'), say)
  const ca = parsePem(cluster, 'certificate-authority', say)
  const cert = parsePem(user, 'client-certificate', say)
  const key = parsePem(user, 'client-key', say)
  if ((cert === undefined) !== (key === undefined)) throw say('client-certificate and client-key must both be given')
  const token = parseToken(user, say)
  const as = parseImpersonation(user)
  return {
    server,
    namespace: textAt(parts.context, 'namespace') || 'default',
    ...(ca ? { ca } : {}),
    ...(textAt(cluster, 'tls-server-name') ? { tlsServerName: textAt(cluster, 'tls-server-name') as string } : {}),
    ...(cert && key ? { certificate: { cert, key } } : {}),
    ...(token ? { token } : {}),
    ...(as ? { as } : {}),
  }
}

function checkServer(server: string | undefined, say: (text: string) => BadKubeconfig): string {
  const url = server !== undefined && URL.canParse(server) ? new URL(server) : undefined
  if (!url || !['https:', 'http:'].includes(url.protocol)) throw say(`server ${JSON.stringify(server ?? null)} is not an https address`)
  if (url.username || url.password || url.search || url.hash) throw say('server must contain only scheme, host, port and path')
  if (url.protocol === 'http:' && !['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname))
    throw say(`server ${server} is plain http: credentials would travel readable. Use https (http is taken for loopback alone)`)
  return url.href.replace(/\/+$/, '')
}

function parsePem(fields: Fields, key: string, say: (text: string) => BadKubeconfig): PemSource | undefined {
  const data = textAt(fields, `${key}-data`)
  if (data) {
    const pem = Buffer.from(data, 'base64').toString('utf8')
    if (!pem.includes('-----BEGIN ')) throw say(`${key}-data is not base64 of a PEM block`)
    return { pem }
  }
  const file = textAt(fields, key)
  return file ? { file } : undefined
}

function parseToken(user: Fields, say: (text: string) => BadKubeconfig): TokenSource | undefined {
  const exec = fieldsAt(user, 'exec')
  if (exec) return parseExec(exec, say)
  // client-go prefers the file if both are set, because the inline value becomes stale.
  const file = textAt(user, 'tokenFile')
  if (file) return { kind: 'file', path: file }
  const value = textAt(user, 'token')
  return value ? { kind: 'value', value } : undefined
}

function parseExec(exec: Fields, say: (text: string) => BadKubeconfig): TokenSource {
  const command = textAt(exec, 'command')
  const apiVersion = textAt(exec, 'apiVersion') ?? ''
  if (!command) throw say('exec: command is missing')
  if (!['client.authentication.k8s.io/v1', 'client.authentication.k8s.io/v1beta1'].includes(apiVersion))
    throw say(`exec: apiVersion "${apiVersion}" is not supported: client.authentication.k8s.io/v1 or v1beta1`)
  if (textAt(exec, 'interactiveMode') === 'Always')
    throw say(`exec: ${command} asks for a terminal (interactiveMode Always), and there is none`)
  const args = valueAt(exec, 'args')
  return {
    kind: 'exec',
    apiVersion,
    command,
    args: Array.isArray(args) ? args.map(String) : [],
    env: Object.fromEntries(rowsAt(exec, 'env').map((row) => [textAt(row, 'name') ?? '', textAt(row, 'value') ?? ''])),
    provideClusterInfo: flagAt(exec, 'provideClusterInfo'),
    ...(textAt(exec, 'installHint') ? { installHint: textAt(exec, 'installHint') as string } : {}),
  }
}

function parseImpersonation(user: Fields): Impersonation | undefined {
  const name = textAt(user, 'as')
  if (!name) return undefined
  const groups = valueAt(user, 'as-groups')
  const uid = textAt(user, 'as-uid')
  return { user: name, ...(Array.isArray(groups) ? { groups: groups.map(String) } : {}), ...(uid ? { uid } : {}) }
}
