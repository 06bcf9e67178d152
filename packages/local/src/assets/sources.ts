// Download addresses of each program. A mirror (BROKKR_KUBE_MIRROR) replaces every host and keeps the same paths:
//   <mirror>/release/<version>/bin/<os>/<arch>/<program>   and <program>.sha256
//   <mirror>/etcd/<version>/etcd-<version>-<os>-<arch>.tar.gz   and SHA256SUMS
//   <mirror>/kwok/<version>/kwok-<os>-<arch>   and kwok-<os>-<arch>.sha256
import { etcdVersion, type KubePart, kubeVersion, kwokVersion } from './kube-parts.ts'

export type AssetSource = {
  url: string
  checksumUrl: string
  /** The file inside the archive; without it the download is the program itself. */
  entry?: string
}
export type Platform = { os: string; arch: string }

/** The source of a part, or the reason why there is none. */
export function assetSource(part: KubePart, platform: Platform, mirror: string | undefined): AssetSource | { none: string } {
  const { os, arch } = platform
  if (os !== 'linux' && part !== 'kubectl' && part !== 'kwok') return { none: `${part} is published only for linux, not for ${os}` }
  if (part === 'etcd') {
    const base = `${mirror === undefined ? 'https://github.com/etcd-io/etcd/releases/download' : `${mirror}/etcd`}/${etcdVersion}`
    const name = `etcd-${etcdVersion}-${os}-${arch}`
    return { url: `${base}/${name}.tar.gz`, checksumUrl: `${base}/SHA256SUMS`, entry: `${name}/etcd` }
  }
  if (part === 'kwok') {
    // Its project publishes no checksum files, and programs without a checksum are not used.
    if (mirror === undefined) return { none: 'kwok is published without a checksum file' }
    return withChecksumBeside(`${mirror}/kwok/${kwokVersion}/kwok-${os}-${arch}`)
  }
  return withChecksumBeside(`${mirror ?? 'https://dl.k8s.io'}/release/${kubeVersion}/bin/${os}/${arch}/${part}`)
}

/** The base address without a trailing slash; undefined if none is set. Plain HTTP only on loopback. */
export function mirrorAddress(env: NodeJS.ProcessEnv): string | undefined {
  const mirror = env['BROKKR_KUBE_MIRROR']
  if (mirror === undefined || mirror === '') return undefined
  const url = URL.canParse(mirror) ? new URL(mirror) : undefined
  if (url === undefined || !isAllowed(url)) {
    throw new Error(`BROKKR_KUBE_MIRROR must be an https:// address, or http:// on 127.0.0.1, ::1 or localhost; it is '${mirror}'`)
  }
  return mirror.replace(/\/+$/, '')
}

/** True for addresses that downloads and redirects may use. */
export function isAllowed(url: URL): boolean {
  if (url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname))
}

export function currentPlatform(): Platform {
  const archs: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', ia32: '386' }
  return { os: process.platform === 'win32' ? 'windows' : process.platform, arch: archs[process.arch] ?? process.arch }
}

function withChecksumBeside(url: string): AssetSource {
  return { url, checksumUrl: `${url}.sha256` }
}
