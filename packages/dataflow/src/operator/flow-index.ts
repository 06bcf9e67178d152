// Which flow an object belongs to, and the objects of a flow by its key.
import { type Change, controllerOf, type KubeObject, nameKey } from '@brokkr/kube'
import { flowKey, label } from './names.ts'

/** Key of the flow that controls the object, or whose label it has; undefined: none. */
export function findFlowKey(object: KubeObject): string | undefined {
  const { namespace, labels = {} } = object.metadata
  const owner = controllerOf(object)
  const of = (kind: string, name: string) => flowKey({ kind, metadata: { name, ...(namespace === undefined ? {} : { namespace }) } })
  if (owner?.kind === 'DataFlow' || owner?.kind === 'DataFlowCron') return of(owner.kind, owner.name)
  const [flow, cron] = [labels[label.name], labels[label.cron]]
  if (flow !== undefined) return of('DataFlow', flow)
  return cron === undefined ? undefined : of('DataFlowCron', cron)
}

/** Objects by flow, kept up to date by a watch. */
export class FlowIndex {
  readonly #byFlow = new Map<string, Map<string, KubeObject>>()

  take(change: Change<KubeObject>): string | undefined {
    const flow = findFlowKey(change.value)
    if (flow === undefined) return undefined
    const objects = this.#byFlow.get(flow) ?? new Map<string, KubeObject>()
    if (change.type === 'deleted') objects.delete(nameKey(change.value.metadata))
    else objects.set(nameKey(change.value.metadata), change.value)
    if (objects.size === 0) this.#byFlow.delete(flow)
    else this.#byFlow.set(flow, objects)
    return flow
  }

  list(flow: string): KubeObject[] {
    return [...(this.#byFlow.get(flow)?.values() ?? [])]
  }
}

/** Flows by the Secrets they refer to. */
export class SecretIndex {
  readonly #flows = new Map<string, Set<string>>()
  readonly #secrets = new Map<string, readonly string[]>()

  set(flow: string, secrets: readonly string[]): void {
    for (const secret of this.#secrets.get(flow) ?? []) {
      const flows = this.#flows.get(secret)
      flows?.delete(flow)
      if (flows?.size === 0) this.#flows.delete(secret)
    }
    if (secrets.length === 0) this.#secrets.delete(flow)
    else this.#secrets.set(flow, secrets)
    for (const secret of secrets) this.#flows.set(secret, (this.#flows.get(secret) ?? new Set()).add(flow))
  }

  flowsOf(secret: string): Iterable<string> {
    return this.#flows.get(secret) ?? []
  }
}
