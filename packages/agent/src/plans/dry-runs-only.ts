// A client for plans: reads and dry runs pass, everything else is refused before it leaves. So no mistake in a plan can change the cluster.
import type { Kube } from '@brokkr/kube'

export class WriteInPlan extends Error {
  override readonly name = 'WriteInPlan'
}

export function withDryRunsOnly(kube: Kube): Kube {
  const refuse = (what: string) => Promise.reject(new WriteInPlan(`a plan must not ${what}`))
  return {
    ...kube,
    create: (object, options) => (options?.dryRun === true ? kube.create(object, options) : refuse('create')),
    replace: (object, options) => (options?.dryRun === true ? kube.replace(object, options) : refuse('replace')),
    patch: (ref, patch, options) => (options?.dryRun === true ? kube.patch(ref, patch, options) : refuse('patch')),
    apply: (object, options) => (options.dryRun === true ? kube.apply(object, options) : refuse('apply')),
    delete: (ref, options) => (options?.dryRun === true ? kube.delete(ref, options) : refuse('delete')),
    request: (method, path, options) => (method === 'GET' ? kube.request(method, path, options) : refuse(method)),
    with: (defaults) => withDryRunsOnly(kube.with(defaults)),
  }
}
