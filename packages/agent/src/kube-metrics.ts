// Counts and times requests to the API server. Watches are counted when they start.
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { AgentMetrics, KubeOperation } from './metrics.ts'

export function withKubeMetrics(deps: { clock: Clock; metrics: AgentMetrics }, kube: Kube): Kube {
  const { clock, metrics } = deps
  const timed = async <T>(operation: KubeOperation, work: () => Promise<T>): Promise<T> => {
    metrics.kubeOperations[operation].inc()
    const startedMs = clock.monotonicMs()
    try {
      return await work()
    } finally {
      metrics.kubeSeconds[operation].observe((clock.monotonicMs() - startedMs) / 1000)
    }
  }
  return {
    ...kube,
    get: (ref, options) => timed('get', () => kube.get(ref, options)),
    find: (ref, options) => timed('get', () => kube.find(ref, options)),
    list: (kind, options) => timed('list', () => kube.list(kind, options)),
    create: (object, options) => timed('create', () => kube.create(object, options)),
    replace: (object, options) => timed('replace', () => kube.replace(object, options)),
    patch: (ref, patch, options) => timed('patch', () => kube.patch(ref, patch, options)),
    apply: (object, options) => timed(options.dryRun ? 'dry_run' : 'apply', () => kube.apply(object, options)),
    delete: (ref, options) => timed('delete', () => kube.delete(ref, options)),
    watch: (kind, options) => {
      metrics.kubeOperations.watch.inc()
      return kube.watch(kind, options)
    },
    with: (defaults) => withKubeMetrics(deps, kube.with(defaults)),
  }
}
