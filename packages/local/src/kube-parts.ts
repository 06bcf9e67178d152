// The programs of a practice cluster: pinned versions, the groups in which they are fetched or built, and which versions found
// elsewhere fit.

export const kubeVersion = 'v1.36.4'
/** What Kubernetes 1.36 pins in its own modules. */
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

export function versionOf(part: KubePart): string {
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

/** The version in what the program printed. */
export function parseVersion(output: string): string | undefined {
  const found = /\bv?(\d+\.\d+\.\d+)/.exec(output)
  return found === null ? undefined : `v${found[1]}`
}

/** Same major and minor as the pinned version: patch releases keep flags and interfaces. kubectl may be one minor off either way. */
export function versionFits(part: KubePart, version: string): boolean {
  const [wantedMajor, wantedMinor] = numbers(versionOf(part))
  const [major, minor] = numbers(version)
  if (major !== wantedMajor || minor === undefined || wantedMinor === undefined) return false
  return Math.abs(minor - wantedMinor) <= (part === 'kubectl' ? 1 : 0)
}

function numbers(version: string): (number | undefined)[] {
  return version.replace(/^v/, '').split('.').map(Number)
}
