// Why there is no control plane: what was looked for, why each way failed, and two commands that mend it.
import { type KubePart, versionOf } from './kube-parts.ts'

export type Way = 'BROKKR_KUBE_ASSETS' | 'PATH' | 'cache' | 'download' | 'build'
export type FailedWay = { way: Way; why: string }

export class KubeUnavailable extends Error {
  override readonly name = 'KubeUnavailable'
  readonly failedWays: readonly FailedWay[]

  constructor(parts: readonly KubePart[], failedWays: readonly FailedWay[], options?: ErrorOptions) {
    super(message(parts, failedWays), options)
    this.failedWays = failedWays
  }
}

function message(parts: readonly KubePart[], failedWays: readonly FailedWay[]): string {
  return [
    `no practice cluster: could not get ${parts.map((part) => `${part} ${versionOf(part)}`).join(', ')}`,
    ...failedWays.map(({ way, why }) => `  ${`${way}:`.padEnd(20)}${why.trim().replaceAll('\n', '\n    ')}`),
    `Do one of these two; the folder must hold ${parts.join(', ')}:`,
    '  BROKKR_KUBE_ASSETS=FOLDER brokkr up',
    '  brokkr up --kubeconfig FILE',
  ].join('\n')
}
