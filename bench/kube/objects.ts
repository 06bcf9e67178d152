// The load: small ConfigMaps, the same for all measured programs.
export const configMap = (namespace: string, n: number, value: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: `c${n}`, namespace, labels: { app: 'bench', part: String(n % 10) } },
  data: { value, index: String(n), text: 'the quick brown fox jumps over the lazy dog' },
})

export const configMapText = (namespace: string, n: number, value: string): string => JSON.stringify(configMap(namespace, n, value))
