// Where the stacks of a Pipeline are: address of the broker, Secret with the PAK, and mode. Pure.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { StackStrategy } from '@brokkr/contract/pipelines/strategy.ts'

export interface StackAccess {
  readonly url: string
  /** The operator named the address, so it may be anywhere. */
  readonly isOperators: boolean
  readonly namespace: string
  readonly secretName: string
  readonly mode: 'Copy' | 'Marker'
}

/** Stacks are read with the credentials of the strategy that promotes them. */
export function findStackAccess(
  pipeline: { namespace: string },
  spec: PipelineSpec,
  brokerUrl: string | null,
): StackAccess | { readonly error: string } {
  const strategy = [spec.promotion, ...spec.environments.map(({ promotion }) => promotion)].find(
    (each) => each?.strategy.stack !== undefined,
  )?.strategy.stack
  if (strategy === undefined) return { error: 'stacks cannot be read: no promotion has the strategy stack, which names the Secret' }
  return toStackAccess(pipeline, strategy, brokerUrl)
}

export function toStackAccess(
  { namespace }: { namespace: string },
  strategy: StackStrategy,
  brokerUrl: string | null,
): StackAccess | { readonly error: string } {
  const url = strategy.url ?? brokerUrl
  if (url === null || URL.parse(url) === null)
    return {
      error: url === null ? 'no broker is configured: set broker_url, or url of the strategy' : 'the address of the broker is no URL',
    }
  return { url, isOperators: strategy.url === undefined, namespace, secretName: strategy.secretRef.name, mode: strategy.mode ?? 'Copy' }
}

/** Name of a target's stack. */
export const stackNameOf = (
  pipeline: { namespace: string },
  spec: Pick<PipelineSpec, 'appRef'>,
  target: { namespace: string; stack?: string | undefined },
): string => target.stack ?? `${target.namespace || pipeline.namespace}-${spec.appRef.name}`
