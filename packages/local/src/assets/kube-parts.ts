// The programs of a practice cluster: pinned versions, the groups in which they are fetched or built, and which other versions are
// accepted.

export const kubeVersion = 'v1.36.4'
/** Pinned by the modules of Kubernetes 1.36. */
export const etcdVersion = 'v3.6.8'
export const kwokVersion = 'v0.8.0'

export type KubePart = 'etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler' | 'kwok' | 'kubectl'
export type KubeGroup = 'core' | 'controllers' | 'kwok' | 'kubectl'

/** Fetched in this order, each group as a whole: the core alone is a usable API server, the rest follows while it runs. */
export const groupParts = {
  core: ['etcd', 'kube-apiserver'],
  controllers: ['kube-controller-manager', 'kube-scheduler'],
  kwok: ['kwok'],
  kubectl: ['kubectl'],
} as const satisfies Record<KubeGroup, readonly KubePart[]>

export const allGroups = ['core', 'controllers', 'kwok', 'kubectl'] as const satisfies readonly KubeGroup[]

export function pinnedVersion(part: KubePart): string {
  if (part === 'etcd') return etcdVersion
  return part === 'kwok' ? kwokVersion : kubeVersion
}

/** Name of the group's cache entry. The platform is in it because a home folder may be shared between machines. */
export function cacheKey(group: KubeGroup, platform = `${process.platform}-${process.arch}`): string {
  return `kube/${group}-${group === 'kwok' ? kwokVersion : kubeVersion}-${platform}`
}

/** Arguments that make the program print its version and end. */
export function versionArguments(part: KubePart): string[] {
  return part === 'kubectl' ? ['version', '--client'] : ['--version']
}

/** Parses the version from the output of the program. */
export function parseVersion(output: string): string | undefined {
  const match = /\bv?(\d+\.\d+\.\d+)/.exec(output)
  return match === null ? undefined : `v${match[1]}`
}

/** Same major and minor as the pinned version: patch releases keep flags and interfaces. kubectl may be one minor off either way. */
export function isVersionAccepted(part: KubePart, version: string): boolean {
  const [pinnedMajor, pinnedMinor] = parseNumbers(pinnedVersion(part))
  const [major, minor] = parseNumbers(version)
  if (major !== pinnedMajor || minor === undefined || pinnedMinor === undefined) return false
  return Math.abs(minor - pinnedMinor) <= (part === 'kubectl' ? 1 : 0)
}

function parseNumbers(version: string): (number | undefined)[] {
  return version.replace(/^v/, '').split('.').map(Number)
}
