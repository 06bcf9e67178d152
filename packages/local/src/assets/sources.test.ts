import { expect, test } from 'vitest'
import type { KubePart } from './kube-parts.ts'
import { type AssetSource, assetSource, isAllowed, mirrorAddress } from './sources.ts'

const linux = { os: 'linux', arch: 'amd64' }
const darwin = { os: 'darwin', arch: 'arm64' }

test.each<[KubePart, string, string]>([
  ['kube-apiserver', 'https://dl.k8s.io/release/v1.36.4/bin/linux/amd64/kube-apiserver', 'kube-apiserver.sha256'],
  ['kubectl', 'https://dl.k8s.io/release/v1.36.4/bin/linux/amd64/kubectl', 'kubectl.sha256'],
  ['etcd', 'https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-amd64.tar.gz', 'SHA256SUMS'],
])('%s has an official address and a checksum file beside it', (part, url, checksumName) => {
  const source = assetSource(part, linux, undefined) as AssetSource
  expect(source.url).toBe(url)
  expect(source.checksumUrl).toBe(new URL(checksumName, url).href)
})

test.each<[KubePart, string]>([
  ['kube-apiserver', 'http://127.0.0.1:8/x/release/v1.36.4/bin/linux/amd64/kube-apiserver'],
  ['etcd', 'http://127.0.0.1:8/x/etcd/v3.6.8/etcd-v3.6.8-linux-amd64.tar.gz'],
  ['kwok', 'http://127.0.0.1:8/x/kwok/v0.8.0/kwok-linux-amd64'],
])('%s is downloaded from the mirror if one is set', (part, url) => {
  expect(assetSource(part, linux, 'http://127.0.0.1:8/x')).toMatchObject({ url })
})

test.each<[KubePart, typeof linux, string]>([
  ['kwok', linux, 'without a checksum file'],
  ['etcd', darwin, 'only for linux'],
  ['kube-apiserver', darwin, 'only for linux'],
])('%s on %o has no source but a reason', (part, platform, why) => {
  expect(assetSource(part, platform, undefined)).toEqual({ none: expect.stringContaining(why) })
})

test.each([
  ['https://mirror.example/kube/', 'https://mirror.example/kube'],
  ['http://localhost:9000', 'http://localhost:9000'],
  ['http://[::1]:9000/a', 'http://[::1]:9000/a'],
  ['', undefined],
])('the mirror %j is used as %j', (given, taken) => {
  expect(mirrorAddress({ BROKKR_KUBE_MIRROR: given })).toBe(taken)
})

test.each(['http://mirror.example/', 'ftp://127.0.0.1/', 'file:///tmp', 'mirror', 'https://user:word@mirror.example/'])(
  'the mirror %j is rejected',
  (given) => {
    expect(() => mirrorAddress({ BROKKR_KUBE_MIRROR: given })).toThrow('BROKKR_KUBE_MIRROR must be')
  },
)

test('a redirect to plain HTTP on another machine is rejected', () => {
  expect(isAllowed(new URL('http://127.0.0.1.example.com/'))).toBe(false)
  expect(isAllowed(new URL('https://elsewhere.example/'))).toBe(true)
})
