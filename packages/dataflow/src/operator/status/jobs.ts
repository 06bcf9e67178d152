// End of a Job. Pure.
import { type KubeObject, rowsAt, textAt } from '@brokkr/kube'

/** Undefined while the Job runs. */
export function findJobEnd(job: KubeObject): 'Complete' | 'Failed' | undefined {
  const types = rowsAt(job, 'status', 'conditions')
    .filter((row) => textAt(row, 'status') === 'True')
    .map((row) => textAt(row, 'type'))
  if (types.includes('Failed')) return 'Failed'
  return types.includes('Complete') ? 'Complete' : undefined
}
