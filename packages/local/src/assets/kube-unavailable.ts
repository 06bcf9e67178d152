// Error for a missing control plane: searched sources, why each failed, and two commands that help.
import { type KubePart, pinnedVersion } from './kube-parts.ts'

export type Source = 'BROKKR_KUBE_ASSETS' | 'PATH' | 'cache' | 'download' | 'build'
export type FailedSource = { source: Source; why: string }

export class KubeUnavailable extends Error {
  override readonly name = 'KubeUnavailable'
  readonly failedSources: readonly FailedSource[]

  constructor(parts: readonly KubePart[], failedWays: readonly FailedSource[], options?: ErrorOptions) {
    super(message(parts, failedWays), options)
    this.failedSources = failedWays
  }
}

function message(parts: readonly KubePart[], failedWays: readonly FailedSource[]): string {
  return [
    `no practice cluster: cannot obtain ${parts.map((part) => `${part} ${pinnedVersion(part)}`).join(', ')}`,
    ...failedWays.map(({ source, why }) => `  ${`${source}:`.padEnd(20)}${why.trim().replaceAll('\n', '\n    ')}`),
    `Use one of these commands; the folder must contain ${parts.join(', ')}:`,
    '  BROKKR_KUBE_ASSETS=FOLDER brokkr up',
    '  brokkr up --kubeconfig FILE',
  ].join('\n')
}
