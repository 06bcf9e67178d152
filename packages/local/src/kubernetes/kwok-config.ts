// Configuration of KWOK: the stages, and one log file that `kubectl logs` returns for every pod.
// There is no entry for exec: KWOK would run the command on this machine.

export function kwokConfig(stages: string, podLog: string): string {
  const logs = [
    'apiVersion: kwok.x-k8s.io/v1alpha1',
    'kind: ClusterLogs',
    'metadata: {name: every-pod}',
    'spec:',
    '  logs:',
    `  - {logsFile: ${JSON.stringify(podLog)}, follow: true}`,
  ]
  return `${stages.trimEnd()}\n---\n${logs.join('\n')}\n`
}

/** In the format of the container runtime interface. The file may change while KWOK runs. */
export function samplePodLog(): string {
  const lines = ['this pod is simulated: no container runs', 'started', 'ready']
  return lines.map((text, second) => `2026-01-01T00:00:0${second}.000000000Z stdout F ${text}\n`).join('')
}
