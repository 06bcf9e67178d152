// Image and environment of processors: from the operator's settings, the image also from the operator's own Deployment. A change of that
// Deployment's pod template is an upgrade of all flows.
import { type Informer, type Kube, type KubeObject, rowsAt, startInformer, textAt, valueAt } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { OperatorConfig } from './config.ts'
import { hashEnvironment, type ProcessorEnvironment } from './desired/pod.ts'

/** Environment of processors. A proxy address with a password is passed by the flow's Secret, never in clear text in an object. */
export interface ProcessorVariables {
  readonly env: Readonly<Record<string, string>>
  readonly secretEnv: Readonly<Record<string, string>>
}

const proxyNames = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const

/** Settings of the operator that its processors get. */
export function toProcessorEnv(config: OperatorConfig, env: Readonly<Record<string, string | undefined>>): ProcessorVariables {
  const proxies = proxyNames.flatMap((name) => {
    const value = env[name] ?? env[name.toLowerCase()]
    return value === undefined || value === '' ? [] : [[name, value] as const]
  })
  const { secret = [], plain = [] } = Object.groupBy(proxies, ([, value]) => (value.includes('@') ? 'secret' : 'plain'))
  return {
    env: {
      LOG_LEVEL: config.PROCESSOR_LOG_LEVEL,
      PROCESSOR_PROGRESS_TIMEOUT_SECONDS: String(config.PROCESSOR_PROGRESS_TIMEOUT_SECONDS),
      ...(config.PROCESSOR_ALLOW_LOOPBACK ? { PROCESSOR_ALLOW_LOOPBACK: 'true' } : {}),
      ...Object.fromEntries(plain),
    },
    secretEnv: Object.fromEntries(secret),
  }
}

export const toPodLabels = (labels: readonly string[]): Record<string, string> =>
  Object.fromEntries(labels.map((text) => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]))

/** Image that the Deployment's pod template names. */
function findImage(deployment: KubeObject | undefined): string | undefined {
  const containers = rowsAt(deployment, 'spec', 'template', 'spec', 'containers')
  return textAt(containers.find((row) => row['name'] === 'operator') ?? containers[0], 'image')
}

export class EnvironmentSource {
  readonly #settings: Pick<ProcessorEnvironment, 'env' | 'secretEnv' | 'labels'>
  readonly #image: string | null
  readonly #informer: Informer<KubeObject> | undefined
  readonly #key: string

  constructor(
    deps: { readonly kube: Kube; readonly clock: Clock; readonly log: Log },
    options: Pick<ProcessorEnvironment, 'env' | 'secretEnv' | 'labels'> & {
      readonly image: string | null
      readonly deployment: string | null
      readonly namespace: string
    },
  ) {
    this.#settings = { env: options.env, secretEnv: options.secretEnv, labels: options.labels }
    this.#image = options.image
    this.#key = `${options.namespace}/${options.deployment ?? ''}`
    this.#informer =
      options.deployment === null
        ? undefined
        : startInformer(deps, {
            kind: { apiVersion: 'apps/v1', kind: 'Deployment' },
            namespace: options.namespace,
            fieldSelector: `metadata.name=${options.deployment}`,
          })
  }

  /** Undefined while no image is known. */
  get current(): ProcessorEnvironment | undefined {
    const image = this.#image ?? findImage(this.#informer?.get(this.#key))
    return image === undefined ? undefined : { image, ...this.#settings }
  }

  get problem(): string | null {
    if (this.current !== undefined) return null
    return this.#informer === undefined
      ? 'no image of processors is known: set PROCESSOR_IMAGE, or OPERATOR_DEPLOYMENT_NAME'
      : `Deployment ${this.#key} has no image: set PROCESSOR_IMAGE, or correct OPERATOR_DEPLOYMENT_NAME`
  }

  /** Called for each change of the pod template. */
  onUpgrade(handler: () => void): void {
    let last = this.#fingerprint()
    this.#informer?.onChange(() => {
      const next = this.#fingerprint()
      if (next !== last) handler()
      last = next
    })
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    await this.#informer?.whenSynced(signal)
  }

  async stop(): Promise<void> {
    await this.#informer?.stop()
  }

  #fingerprint(): string {
    const template = valueAt(this.#informer?.get(this.#key), 'spec', 'template')
    return JSON.stringify([template, this.current === undefined ? '' : hashEnvironment(this.current)])
  }
}
