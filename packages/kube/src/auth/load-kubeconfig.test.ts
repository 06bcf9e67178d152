import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BadKubeconfig } from './kube-config.ts'
import { loadInCluster } from './load-in-cluster.ts'
import { loadKubeconfig, parseForeignKubeconfig } from './load-kubeconfig.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'kubeconfig-'))
})
afterAll(() => rm(dir, { recursive: true }))

const pem = '-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n'
const data = Buffer.from(pem).toString('base64')

const text = (user: string, cluster = '', context = '') => `apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c
  cluster:
    server: https://api.example.com:6443/prefix/
    ${cluster}
users:
- name: u
  user:
    ${user}
contexts:
- name: one
  context: {cluster: c, user: u${context}}
- name: two
  context: {cluster: c, user: u, namespace: second}
`
const file = async (name: string, content: string) => {
  await mkdir(join(dir, name, '..'), { recursive: true })
  await writeFile(join(dir, name), content)
  return join(dir, name)
}
const load = async (content: string, options: { context?: string } = {}) =>
  loadKubeconfig({ path: await file('config', content), env: {}, ...options })

test('loadKubeconfig reads a token, an inline CA and another context', async () => {
  const config = text('token: secret', `certificate-authority-data: ${data}\n    tls-server-name: inner`)
  expect(await load(config)).toEqual({
    server: 'https://api.example.com:6443/prefix',
    namespace: 'default',
    ca: { pem },
    tlsServerName: 'inner',
    token: { kind: 'value', value: 'secret' },
  })
  expect((await load(config, { context: 'two' })).namespace).toBe('second')
})

test('loadKubeconfig resolves files relative to the kubeconfig', async () => {
  const config = text(
    'client-certificate: pki/a.crt\n    client-key: /abs/a.key\n    tokenFile: token\n    token: stale\n    as: robot\n    as-groups: [g]',
    'certificate-authority: ca.crt',
  )
  expect(await loadKubeconfig({ path: await file('deep/config', config), env: {} })).toMatchObject({
    ca: { file: join(dir, 'deep/ca.crt') },
    certificate: { cert: { file: join(dir, 'deep/pki/a.crt') }, key: { file: '/abs/a.key' } },
    token: { kind: 'file', path: join(dir, 'deep/token') },
    as: { user: 'robot', groups: ['g'] },
  })
})

test('loadKubeconfig resolves an exec command with a slash relative to the kubeconfig', async () => {
  const exec = (command: string) =>
    text(
      `exec: {apiVersion: client.authentication.k8s.io/v1, command: ${command}, args: [a, 1], env: [{name: A, value: b}], interactiveMode: IfAvailable, provideClusterInfo: true}`,
    )
  const plugin = {
    kind: 'exec',
    apiVersion: 'client.authentication.k8s.io/v1',
    args: ['a', '1'],
    env: { A: 'b' },
    provideClusterInfo: true,
  }
  expect((await load(exec('get-token'))).token).toEqual({ ...plugin, command: 'get-token' })
  expect((await load(exec('./bin/get-token'))).token).toEqual({ ...plugin, command: join(dir, 'bin/get-token') })
})

test('loadKubeconfig merges files of KUBECONFIG; the first entry of a name wins', async () => {
  const first = await file('first', 'clusters: [{name: c, cluster: {server: https://first.example.com}}]\n')
  const second = await file('second', text('token: t'))
  const env = { KUBECONFIG: [first, join(dir, 'absent'), second].join(':') }
  expect((await loadKubeconfig({ env })).server).toBe('https://first.example.com')
  await expect(loadKubeconfig({ env: { KUBECONFIG: `${join(dir, 'x')}:${join(dir, 'y')}` } })).rejects.toThrow('none of')
})

test('loadKubeconfig reads the home folder without KUBECONFIG', async () => {
  await file('.kube/config', text('token: home'))
  expect((await loadKubeconfig({ env: { HOME: dir } })).token).toEqual({ kind: 'value', value: 'home' })
})

test.each([
  ['not YAML', 'a: [', 'is not valid YAML'],
  ['a list', '- a', 'contains no mapping'],
  ['empty', '', 'contains no mapping'],
  ['no current context', 'clusters: []', 'current-context is not set; there are: none'],
  [
    'an unknown context',
    text('token: t').replace('current-context: one', 'current-context: three'),
    'current-context "three" does not exist; there are: one, two',
  ],
  ['an unknown user', text('token: t').replace('user: u}', 'user: nobody}'), 'user of context "one" "nobody" does not exist'],
  ['an old auth provider', text('auth-provider: {name: gcp}'), 'auth-provider "gcp" is not supported: use an exec plugin'],
  ['a password', text('username: a\n    password: b'), 'username and password are not supported'],
  ['an unverified server', text('token: t', 'insecure-skip-tls-verify: true'), 'insecure-skip-tls-verify is refused'],
  ['a proxy', text('token: t', 'proxy-url: http://proxy.example.com'), 'proxy-url is not supported'],
  ['plain http', text('token: t').replace('https://api.example.com:6443/prefix/', 'http://api.example.com'), 'plain http'],
  ['no server', text('token: t').replace(/server: .*/, 'x: y'), 'is not an https address'],
  ['a key in the address', text('token: t').replace('https://', 'https://user:pass@'), 'only scheme, host, port and path'],
  ['a certificate without key', text(`client-certificate-data: ${data}`), 'must both be given'],
  ['data that is no PEM', text('token: t', 'certificate-authority-data: AAAA'), 'is not base64 of a PEM block'],
  ['an exec plugin without command', text('exec: {apiVersion: client.authentication.k8s.io/v1}'), 'exec: command is missing'],
  ['an exec plugin of an old version', text('exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}'), 'v1 or v1beta1'],
  [
    'an exec plugin that wants a terminal',
    text('exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}'),
    'asks for a terminal',
  ],
])('%s is refused by name', async (_what, content, message) => {
  const error = await load(content).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(BadKubeconfig)
  expect(String(error)).toContain(message)
  expect(String(error)).toContain(join(dir, 'config'))
})

test('loadKubeconfig reports a missing file', async () => {
  await expect(loadKubeconfig({ path: join(dir, 'nothing'), env: {} })).rejects.toThrow('cannot be read: ENOENT')
})

test('parseForeignKubeconfig refuses programs and files', () => {
  const from = { source: 'Secret a/b' }
  expect(parseForeignKubeconfig(text('token: t', `certificate-authority-data: ${data}`), from).token).toEqual({ kind: 'value', value: 't' })
  for (const user of [
    'exec: {apiVersion: client.authentication.k8s.io/v1, command: x}',
    'tokenFile: /etc/passwd',
    'client-certificate: /a\n    client-key: /b',
  ])
    expect(() => parseForeignKubeconfig(text(user), from)).toThrow(/Secret a\/b.*is refused here/)
  expect(() => parseForeignKubeconfig(text('token: t', 'certificate-authority: /a'), from)).toThrow('certificate-authority is refused here')
})

test('loadInCluster reads the address from the environment and token and CA from files', async () => {
  await file('pod/namespace', 'brokkr\n')
  const env = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' }
  expect(await loadInCluster({ env, dir: join(dir, 'pod') })).toEqual({
    server: 'https://10.96.0.1:443',
    namespace: 'brokkr',
    ca: { file: join(dir, 'pod/ca.crt') },
    token: { kind: 'file', path: join(dir, 'pod/token') },
  })
  expect((await loadInCluster({ env: { ...env, KUBERNETES_SERVICE_HOST: 'fd00::1' }, dir: join(dir, 'pod') })).server).toBe(
    'https://[fd00::1]:443',
  )
  await expect(loadInCluster({ env: {} })).rejects.toThrow('not in a pod')
  await expect(loadInCluster({ env, dir: join(dir, 'nowhere') })).rejects.toThrow('no service account token mounted')
})
